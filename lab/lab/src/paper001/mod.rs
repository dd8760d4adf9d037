//! Paper 001's tables and figures, and results of its supplement: one module each, over the designs
//! that it compares.

mod common;
pub(crate) mod designs;
pub(crate) mod fig10;
pub(crate) mod fig11;
pub(crate) mod fig12;
pub(crate) mod fig6;
pub(crate) mod fig7;
pub(crate) mod fig8;
pub(crate) mod fig9;
pub(crate) mod supplement;
pub(crate) mod table1;
pub(crate) mod table3;
