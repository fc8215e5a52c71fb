//! Draws random numbers for tests of statistical properties.

/// Generator of standard normal numbers by the method of Box and Muller. Sums of uniform numbers
/// would lack the tails.
pub struct Normal(pub u64);

impl Normal {
    /// Draws a uniform number from 0 (inclusive) to 1 (exclusive).
    pub fn uniform(&mut self) -> f64 {
        // SplitMix64 (Steele et al. 2014).
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws a standard normal number.
    pub fn draw(&mut self) -> f64 {
        let (u, v) = (self.uniform().max(1e-300), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Draws values of a log-normal distribution.
    pub fn values(&mut self, n: usize, median: f64, spread: f64) -> Vec<f64> {
        (0..n).map(|_| median * (spread * self.draw()).exp()).collect()
    }
}
