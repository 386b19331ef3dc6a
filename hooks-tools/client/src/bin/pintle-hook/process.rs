//! What the kernel put on the stack for this process: arguments, environment, and the auxiliary vector.

use core::ffi::{CStr, c_char};

const EFFECTIVE_UID: usize = 12;
const RANDOM: usize = 25;

/// What this process was started with.
#[derive(Clone, Copy)]
pub struct Process {
    args: *const *const c_char,
    environment: *const *const c_char,
    /// Who we are.
    pub uid: Option<usize>,
    /// Sixteen random bytes, new in every process.
    pub random: Option<[u8; 16]>,
}

impl Process {
    /// # Safety
    /// `stack` is the stack pointer at the entry point.
    pub unsafe fn from_stack(stack: *const usize) -> Self {
        // SAFETY: the system's contract: count, arguments, null, environment, null, pairs of numbers up to a zero.
        unsafe {
            let args = stack.add(1).cast::<*const c_char>();
            let environment = args.add(*stack + 1);
            let mut end = environment;
            while !(*end).is_null() {
                end = end.add(1);
            }
            let mut pair = end.add(1).cast::<usize>();
            let mut process = Process { args, environment, uid: None, random: None };
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

    /// The arguments, from the program's own name on.
    pub fn args(&self) -> Texts {
        Texts(self.args)
    }

    /// The first variable of that name, unless it is empty.
    pub fn variable(&self, name: &[u8]) -> Option<&'static [u8]> {
        let named = |text: &'static [u8]| text.strip_prefix(name)?.strip_prefix(b"=");
        Texts(self.environment).find_map(named).filter(|value| !value.is_empty())
    }
}

/// The texts of a list that a null ends; both live as long as the process.
#[derive(Clone)]
pub struct Texts(*const *const c_char);

impl Iterator for Texts {
    type Item = &'static [u8];

    fn next(&mut self) -> Option<&'static [u8]> {
        // SAFETY: made from the stack's lists only, and never moved past the null.
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
