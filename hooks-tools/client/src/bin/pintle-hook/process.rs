//! Reads what the kernel puts on the stack of a new process: arguments, environment and auxiliary vector.

use core::ffi::{CStr, c_char};

/// Keys of the auxiliary vector (`AT_EUID`, `AT_RANDOM`).
const EFFECTIVE_UID: usize = 12;
const RANDOM: usize = 25;

/// The arguments and environment of this process.
#[derive(Clone, Copy)]
pub struct ProcessStart {
    args: *const *const c_char,
    environment: *const *const c_char,
    /// The effective user.
    pub uid: Option<usize>,
    /// Sixteen random bytes that differ between processes.
    pub random: Option<[u8; 16]>,
}

impl ProcessStart {
    /// Reads the stack.
    ///
    /// # Safety
    /// `stack` is the stack pointer at the entry point.
    pub unsafe fn from_stack(stack: *const usize) -> Self {
        // SAFETY: the ABI guarantees the layout: count, arguments, null, environment, null, pairs of numbers up to a
        // zero.
        unsafe {
            let args = stack.add(1).cast::<*const c_char>();
            let environment = args.add(*stack + 1);
            let mut end = environment;
            while !(*end).is_null() {
                end = end.add(1);
            }
            let mut pair = end.add(1).cast::<usize>();
            let mut process = ProcessStart { args, environment, uid: None, random: None };
            while *pair != 0 {
                let value = *pair.add(1);
                if *pair == EFFECTIVE_UID {
                    process.uid = Some(value);
                } else if *pair == RANDOM && value != 0 {
                    process.random = Some(*(value as *const [u8; 16]));
                }
                pair = pair.add(2);
            }
            process
        }
    }

    /// The arguments, beginning with the name of the program.
    pub fn args(&self) -> Texts {
        Texts(self.args)
    }

    /// The environment as the kernel has put it on the stack, for a program that this process starts.
    pub fn environment(&self) -> *const *const c_char {
        self.environment
    }

    /// The value of an environment variable; `None` if it is not set or empty.
    pub fn variable(&self, name: &[u8]) -> Option<&'static [u8]> {
        let named = |text: &'static [u8]| text.strip_prefix(name)?.strip_prefix(b"=");
        Texts(self.environment).find_map(named).filter(|value| !value.is_empty())
    }
}

/// The texts of a null-terminated list that lives as long as the process.
#[derive(Clone)]
pub struct Texts(*const *const c_char);

impl Texts {
    /// The rest of the list, as the kernel has put it on the stack: it ends with a null.
    pub fn as_ptr(&self) -> *const *const c_char {
        self.0
    }
}

impl Iterator for Texts {
    type Item = &'static [u8];

    fn next(&mut self) -> Option<&'static [u8]> {
        // SAFETY: created from the lists on the stack only, and never moved past the null.
        unsafe {
            if (*self.0).is_null() {
                return None;
            }
            let text = CStr::from_ptr(*self.0).to_bytes();
            self.0 = self.0.add(1);
            Some(text)
        }
    }
}
