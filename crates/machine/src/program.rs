//! A definition ready to execute: the IR with every expression and schema compiled once.

use crate::{
    expr,
    ir::{self, Foreach, Kind, StepId},
    schema::Schema,
    state::{Body, Frame, Phase},
};

/// The IR and what was compiled from it. Shared by every instance of the definition version.
pub struct Program {
    pub ir: ir::Workflow,
    pub exprs: Vec<expr::Compiled>,
    /// Of the raw workflow input.
    pub input_schema: Option<Schema>,
    pub schemas: Vec<Schema>,
    /// What the definition asks for, or more if the operator does.
    pub lifecycle: ir::Lifecycle,
}

/// Why an IR cannot be made ready.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("an expression does not compile: {0}")]
    Expression(#[from] expr::CompileError),
    #[error("a schema does not compile: {0}")]
    Schema(#[from] crate::schema::SchemaError),
}

impl Program {
    /// Compiles every expression and schema of `ir`; the first that does not compile is the error.
    pub fn new(ir: ir::Workflow) -> Result<Program, ProgramError> {
        let exprs = ir
            .exprs
            .iter()
            .map(|e| expr::Compiled::new(&e.source, &e.locals))
            .collect::<Result<Vec<_>, _>>()?;
        let schemas = ir.schemas.iter().map(Schema::new).collect::<Result<Vec<_>, _>>()?;
        let input_schema = ir.input_schema.as_ref().map(Schema::new).transpose()?;
        let lifecycle = ir.lifecycle;
        Ok(Program { ir, exprs, input_schema, schemas, lifecycle })
    }

    /// The steps of a saga; none if the step is something else.
    pub fn saga_steps(&self, id: ir::StepId) -> &[ir::SagaStep] {
        match &self.step(id).kind {
            ir::Kind::Saga { steps } => steps,
            _ => &[],
        }
    }

    /// True if the frame stands for the call of a function.
    pub fn calls_function(&self, frame: &Frame) -> bool {
        frame.step.is_some_and(|id| matches!(self.step(id).kind, Kind::Function { .. }))
    }

    pub fn step(&self, id: ir::StepId) -> &ir::Step {
        &self.ir.steps[id as usize]
    }

    /// The list that a frame goes through: of the step, or of the workflow itself.
    pub fn list(&self, step: Option<StepId>, body: &Body) -> &[StepId] {
        let Some(id) = step else { return &self.ir.root };
        match (&self.step(id).kind, body) {
            (_, Body::Around(around)) => {
                let extension = self.step(id).extension(around.done.is_some(), around.at);
                extension.map_or(&[], |extension| extension.list.as_slice())
            }
            (Kind::Do { list } | Kind::For { list, .. }, _) => list,
            (Kind::Function { task, .. }, _) => std::slice::from_ref(task),
            (Kind::Try { catch, .. }, Body::Try(attempt)) if attempt.phase == Phase::Catching => {
                catch.list.as_deref().unwrap_or(&[])
            }
            (Kind::Try { list, .. } | Kind::Listen { foreach: Some(Foreach { list, .. }), .. }, _) => list,
            _ => &[],
        }
    }
}
