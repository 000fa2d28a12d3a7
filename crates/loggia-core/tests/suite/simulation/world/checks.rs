//! The assertions after every step, and those after the last one.

use super::*;

impl World {
    /// After every step. The witness has checked the laws on each append already.
    pub(super) fn check(&self) -> Lawful {
        law!(self.witness.head.0 == self.disk.log.len() as u64, "P5: the log has a gap");
        for (epoch, node) in &self.nodes {
            law!(node.head <= self.disk.log.len(), "P5: node {epoch} shows what is not durable");
            if *epoch == self.disk.epoch {
                law!(node.session == self.replayed, "L1: node {epoch} and the log disagree");
                law!(node.head == self.disk.log.len(), "P5: node {epoch} hides what is durable");
            }
        }
        for (number, client) in self.clients.iter().enumerate() {
            law!(client.seen.len() <= self.disk.log.len(), "P5: client {number} saw more than is");
        }
        Ok(())
    }

    pub(super) fn check_acknowledged(&self) -> Lawful {
        for known in &self.acknowledged {
            let found = self.disk.log.get(known.seq.0 as usize - 1);
            let same = found.is_some_and(|it| Arc::ptr_eq(it, known));
            law!(same, "P1: {} was acknowledged, the log has {found:?}", known.seq);
        }
        Ok(())
    }

    /// Without further faults, every request gets a reply, every question an answer, every turn an end.
    pub(super) fn come_to_rest(&mut self) -> Lawful {
        self.calm = true;
        let stale: Vec<u64> =
            self.nodes.keys().copied().filter(|epoch| *epoch != self.disk.epoch).collect();
        for epoch in stale {
            self.kill(epoch, "the end of the run")?;
        }
        if self.nodes.is_empty() {
            self.open()?;
        }
        let epoch = self.disk.epoch;
        for _ in 0..2_000 {
            for number in 0..self.clients.len() {
                self.clients[number].node = Some(epoch);
                self.client_reads(number, epoch, usize::MAX)?;
                if let Some(request) = self.unknown_of(number).first().copied() {
                    self.send(request, epoch);
                }
            }
            self.answer_everything(epoch);
            self.writer_step(epoch)?;
            self.agent_step(epoch)?;
            self.check()?;
            if self.at_rest(epoch) {
                return Ok(());
            }
        }
        Err("the session does not come to rest".into())
    }

    fn answer_everything(&mut self, epoch: u64) {
        let open: Vec<_> = self.witness.open_approvals().cloned().collect();
        for approval in open {
            let offered = &self.witness.approvals[&approval].choices;
            let words = offered.iter().any(|choice| choice.0 == ChoiceId::ANSWER);
            let (choice, edit) = match (self.rng.below(3), words) {
                // A deny rule may refuse the approval by now, so some answers refuse the call.
                (0, _) => (ChoiceId::CANCEL, None),
                (_, true) => (ChoiceId::ANSWER, Some(Edit::Text { text: "yes".into() })),
                (_, false) => (ChoiceId::PROCEED_ONCE, None),
            };
            let to = Question::Approval(approval);
            let command =
                Command::Answer { to, choice: choice.into(), edit, digest: None, message: None };
            let client = self.rng.below(self.clients.len());
            self.requests.push(Request { client, command, state: State::Unknown });
            self.send(self.requests.len() - 1, epoch);
        }
    }

    fn at_rest(&self, epoch: u64) -> bool {
        let node = &self.nodes[&epoch];
        let told = |request: &Request| matches!(request.state, State::Done | State::Refused(_));
        let read = |client: &Client| client.seen.len() == self.disk.log.len();
        node.session.turn().is_none()
            && node.session.queue().len() == 0
            && node.control.is_empty()
            && node.reports.is_empty()
            && self.requests.iter().all(told)
            && self.clients.iter().all(read)
    }

    pub(super) fn check_end(&mut self) -> Lawful {
        let log = self.reread();
        let witness = Witness::of(&log)?;
        law!(fold(&log) == self.nodes[&self.disk.epoch].session, "L1: the log says otherwise");
        self.check_acknowledged()?;
        for (number, client) in self.clients.iter().enumerate() {
            let same = client.seen.iter().zip(&self.disk.log).all(|(a, b)| Arc::ptr_eq(a, b));
            law!(same && client.seen.len() == log.len(), "P5: client {number} has another log");
        }
        for (call, known) in &witness.calls {
            law!(known.ended.is_some(), "L4: {call} never ends");
            let ran = self.ledger.contains_key(call);
            law!(!ran || known.started.is_some(), "P3: {call} ran without a start");
        }
        let typed = |event: &Event| {
            matches!(event, Event::CallStarted { authority: Authority::Typed { .. }, .. })
        };
        self.figures.typed += log.iter().filter(|envelope| typed(&envelope.event)).count();
        self.figures.events += log.len();
        self.figures.calls += witness.calls.len();
        Ok(())
    }
}

/// P2: the reply to an answer is true.
pub(super) fn informed(
    asked: Option<&Approval>,
    choice: &ChoiceId,
    edit: Option<&Edit>,
    origin: &Origin,
    told: &Result<Option<Seq>, Refusal>,
    current: bool,
) -> Lawful {
    let answer = asked.and_then(|asked| asked.answer.as_ref());
    // An edit with a refusal is ignored.
    let edit = edit.filter(|_| choice.proceeds());
    match (told, answer) {
        (Ok(_), Some(won)) => {
            let own = won.by == *origin && won.choice == *choice && won.edit.as_ref() == edit;
            law!(own, "P2: {origin} is told that it won, and {} did", won.by);
        }
        (Ok(_), None) => return Err(format!("P2: {origin} won a question nobody answered")),
        (Err(Refusal::AlreadyAnswered { choice, by, at }), Some(won)) => {
            let truth = won.choice == *choice && won.by == *by && won.at == *at;
            law!(truth, "P2: {origin} is told of {by}, and {} won", won.by);
        }
        (Err(Refusal::AlreadyAnswered { .. }), None) => {
            return Err(format!("P2: {origin} is told that somebody won, and nobody did"));
        }
        (Err(Refusal::Withdrawn { .. }), answer) => {
            law!(answer.is_none(), "P2: {origin} is told nobody won, and somebody did");
        }
        // A node that has lost its lease without noticing may not know the question yet.
        (Err(Refusal::UnknownQuestion), _) => {
            law!(asked.is_none() || !current, "P2: {origin} is told there is no such question");
        }
        // Refused while the question was open (`is_open`), or because the session is closed.
        (Err(_), _) => {}
    }
    Ok(())
}
