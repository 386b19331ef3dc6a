//! Random numbers from a seed: the only source of chance in a schedule.

/// A stream of numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct SeededRng(u64);

impl SeededRng {
    pub fn new(seed: u64) -> SeededRng {
        SeededRng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// Continues the stream of [`SeededRng::state`].
    pub fn resume(state: u64) -> SeededRng {
        SeededRng(state)
    }

    pub fn state(&self) -> u64 {
        self.0
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.number() % bound }
    }

    /// True `per_mille` times in a thousand.
    pub fn chance_of(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1000) < per_mille
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len() as u64) as usize)
    }
}
