//! A definition ready to execute: the IR with every expression compiled once.

use crate::{expr, ir};

/// The IR and its compiled expressions. Shared by every instance of the definition version.
pub struct Program {
    pub ir: ir::Workflow,
    pub exprs: Vec<expr::Compiled>,
}

impl Program {
    /// Compiles every expression of `ir`; the first that does not compile is the error.
    pub fn new(ir: ir::Workflow) -> Result<Program, expr::CompileError> {
        let exprs = ir
            .exprs
            .iter()
            .map(|e| expr::Compiled::new(&e.source, &e.locals))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Program { ir, exprs })
    }

    pub fn step(&self, id: ir::StepId) -> &ir::Step {
        &self.ir.steps[id as usize]
    }
}
