//! Which scopes each request needs, on every binding.

use loggia_wire::attach::ClientCommand;
use loggia_wire::refuse::Forbidden;
use loggia_wire::{Condition, Intent, WireError};

use crate::auth::Scope;
use crate::state::Caller;

const READ: &[Scope] = &[Scope::Read];
const PROMPT: &[Scope] = &[Scope::Prompt];
const PROMPT_AND_READ: &[Scope] = &[Scope::Prompt, Scope::Read];
const PROMPT_AND_APPROVE: &[Scope] = &[Scope::Prompt, Scope::Approve];
const APPROVE: &[Scope] = &[Scope::Approve];
const APPROVE_AND_READ: &[Scope] = &[Scope::Approve, Scope::Read];

/// A stream shows the task, and so does a webhook; the plain answer is the task alone.
pub(crate) fn of_intent(intent: &Intent, streams: bool) -> &'static [Scope] {
    match intent {
        Intent::Prompt(_) if streams => PROMPT_AND_READ,
        Intent::Prompt(message) if message.push.is_some() => PROMPT_AND_READ,
        Intent::SetPush { .. } => PROMPT_AND_READ,
        Intent::Answer(_) if streams => APPROVE_AND_READ,
        Intent::Answer(_) => APPROVE,
        Intent::OpenTask(_)
        | Intent::Prompt(_)
        | Intent::Cancel { .. }
        | Intent::DeletePush { .. }
        | Intent::RunSlash(_) => PROMPT,
        Intent::Subscribe { .. }
        | Intent::GetTask { .. }
        | Intent::ListTasks(_)
        | Intent::GetPush { .. }
        | Intent::ListPush { .. }
        | Intent::GetExtendedCard
        | Intent::ListSlash { .. } => READ,
    }
}

/// For a command of an attached client, which needed `read` to attach.
pub(crate) fn of_command(command: &ClientCommand) -> &'static [Scope] {
    match command {
        ClientCommand::Prompt { .. } | ClientCommand::Cancel { .. } => PROMPT,
        ClientCommand::Answer { .. } => APPROVE,
        // Running a command line needs the scope for approving one.
        ClientCommand::Shell { .. } => PROMPT_AND_APPROVE,
    }
}

/// Fails with the first scope that the caller lacks.
pub(crate) fn check(needed: &[Scope], caller: &Caller) -> Result<(), WireError> {
    match needed.iter().find(|scope| !caller.principal.scopes.has(**scope)) {
        Some(scope) => Err(out_of_scope(*scope)),
        None => Ok(()),
    }
}

/// The error of a principal that lacks a scope.
pub(crate) fn out_of_scope(missing: Scope) -> WireError {
    Condition::Forbidden(Forbidden::Scope(missing.name())).into()
}

#[cfg(test)]
mod tests {
    use loggia_core::{Cancel, Content, Origin, Question};

    use super::*;
    use crate::auth::{Principal, Scopes};

    #[test]
    fn commands_need_scopes() {
        let nothing = Scopes { read: true, prompt: false, approve: false, admin: true };
        let prompts = Scopes { prompt: true, ..nothing };
        let approves = Scopes { approve: true, ..nothing };
        let prompt = ClientCommand::Prompt { prompt: "p".into(), content: Content::text("hi") };
        let shell = ClientCommand::Shell { prompt: "p".into(), line: "ls".into() };
        let to = Question::Call("c".into());
        let answer =
            ClientCommand::Answer { to, choice: "cancel".into(), edit: None, digest: None };
        let cancel = ClientCommand::Cancel { what: Cancel::Turn };
        let table = [
            // reads only, may prompt, may approve, both
            (prompt, [false, true, false, true]),
            (shell, [false, false, false, true]),
            (answer, [false, false, true, true]),
            (cancel, [false, true, false, true]),
        ];
        for (command, wanted) in table {
            let may = [nothing, prompts, approves, Scopes::CLIENT].map(|scopes| {
                let caller = Caller::new(Principal::new("ann").may(scopes), Origin::system());
                check(of_command(&command), &caller).is_ok()
            });
            assert_eq!(may, wanted, "{command:?}");
        }
    }
}
