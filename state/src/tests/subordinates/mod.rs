//! Tests of subordinates and containers (spec A.12, H.8), and of suspended relations (H.7).

pub mod fixture;
mod limits;
mod principals;
mod restores;
mod suspension;
