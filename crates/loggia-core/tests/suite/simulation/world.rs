//! The simulated world around the core, driven by one seed. [`checks`] has the assertions.

mod checks;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use loggia_core::{
    AgentName, Authority, CallFailure, CallId, CallOutcome, ChoiceId, Command, Details, Durability,
    Edit, Effect, Envelope, Event, Millis, Origin, Question, Refusal, Seq, Session, Workspace,
};

use super::Figures;
use super::agent::Doing;
use super::client::{Client, Request, State, settings};
use super::disk::Disk;
use super::node::{CONTROL_INBOX, Node, REPORT_INBOX, Reply, Step};
use super::rng::Rng;
use crate::suite::laws::{fold, stored};
use crate::suite::witness::{Approval, Lawful, Witness, law};

pub struct World {
    rng: Rng,
    now: i64,
    disk: Disk,
    /// By epoch. The newest may append; older ones may not know yet that they lost the lease.
    nodes: BTreeMap<u64, Node>,
    clients: Vec<Client>,
    requests: Vec<Request>,
    /// Every tool that was started.
    ledger: HashMap<CallId, Details>,
    /// Acknowledged events and their positions.
    acknowledged: Vec<Arc<Envelope>>,
    /// Checks the laws on the durable log.
    witness: Witness,
    /// The fold of the durable log.
    replayed: Session,
    names: u64,
    calm: bool,
    trace: bool,
    pub figures: Figures,
}

/// Where a step of the writer can be interrupted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    DiesBeforeAppend,
    LosesLease,
    AppendFails,
    AppendLandsAndFails,
    DiesAfterAppend,
    DiesAfterPublish,
    DiesAmongReplies(usize),
    DiesAmongEffects(usize),
}

/// Whether the node still exists after its step.
type Survived = Result<bool, String>;

impl World {
    pub fn new(seed: u64, trace: bool) -> Self {
        let mut rng = Rng::new(seed);
        let clients = (0..2 + rng.below(5)).map(|number| Client::new(number, &mut rng)).collect();
        Self {
            rng,
            now: 1_767_225_600_000,
            disk: Disk::default(),
            nodes: BTreeMap::new(),
            clients,
            requests: Vec::new(),
            ledger: HashMap::new(),
            acknowledged: Vec::new(),
            witness: Witness::default(),
            replayed: Session::default(),
            names: 0,
            calm: false,
            trace,
            figures: Figures::default(),
        }
    }

    pub fn run(&mut self) -> Lawful {
        let steps = 60 + self.rng.below(120);
        for _ in 0..steps {
            self.step()?;
            self.check()?;
        }
        self.come_to_rest()?;
        self.check_end()
    }

    fn step(&mut self) -> Lawful {
        self.now += self.rng.below(40) as i64;
        if self.rng.per_mille(15) {
            self.jump();
        }
        let Some(newest) = self.nodes.keys().next_back().copied() else {
            return if self.rng.percent(60) { self.open() } else { self.client_step() };
        };
        let epochs: Vec<u64> = self.nodes.keys().copied().collect();
        let epoch = if self.rng.percent(80) { newest } else { *self.rng.pick(&epochs) };
        match self.rng.below(1000) {
            0..300 => self.writer_step(epoch),
            300..620 => self.agent_step(epoch),
            620..985 => self.client_step(),
            985..990 => self.kill(epoch, "process"),
            990..995 => self.open(),
            _ => self.power_cut(),
        }
    }

    // -------------------------------------------------------------------------------- the writer

    /// A node takes over the session: after a crash, or from one that is alive but slow.
    fn open(&mut self) -> Lawful {
        let epoch = self.disk.acquire();
        let session = fold(&self.reread());
        law!(session == self.replayed, "L1: node {epoch} folds the log to another state");
        let running = self.witness.running_calls();
        let asked: Vec<_> = self.witness.open_approvals().cloned().collect();
        let mut node = Node::new(session, &mut self.rng);
        let at = Millis(self.now);
        let mut step = node.recover(at);
        if step.events.is_empty() && node.session.opened().is_none() {
            let open = Command::Open {
                workspace: Workspace::Local { path: "/work/project".into() },
                settings: settings(&mut self.rng),
                agent: AgentName("scripted".into()),
            };
            node.decide(&mut step, open, &Origin::system(), at).map_err(|it| it.to_string())?;
        }
        self.say(|| format!("node {epoch} opens at {}, recovers {:?}", node.head, step.events));
        self.figures.resumed += usize::from(!asked.is_empty());
        let (before, silent) = (self.disk.log.len(), step.events.is_empty());
        self.nodes.insert(epoch, node);
        self.commit(epoch, step)?;
        if silent || self.disk.log.len() > before {
            self.figures.interrupted += running.len();
            for call in running {
                let interrupted = CallOutcome::Failed { failure: CallFailure::interrupted() };
                let ended = self.witness.calls[&call].ended.as_ref();
                law!(ended == Some(&interrupted), "P3: {call} was cut and ended as {ended:?}");
            }
            let still: Vec<_> = self.witness.open_approvals().cloned().collect();
            law!(still == asked, "R02: {asked:?} were open, now {still:?}");
        }
        Ok(())
    }

    /// The log as another process reads it; sometimes through its JSON.
    fn reread(&mut self) -> Vec<Envelope> {
        let through_json = self.rng.percent(10);
        let envelope = |it: &Arc<Envelope>| if through_json { stored(it) } else { (**it).clone() };
        self.disk.log.iter().map(envelope).collect()
    }

    fn writer_step(&mut self, epoch: u64) -> Lawful {
        let Some(node) = self.nodes.get_mut(&epoch) else { return Ok(()) };
        let mut step = Step::default();
        for _ in 0..1 + self.rng.below(4) {
            let Some(request) = node.control.pop_front() else { break };
            let Request { client, command, .. } = &self.requests[request];
            let origin = &self.clients[*client].origin;
            let (head, events) = (node.session.head(), step.events.len());
            let open = is_open(&node.session, command);
            self.now += self.rng.below(3) as i64;
            let result = node.decide(&mut step, command.clone(), origin, Millis(self.now));
            if let Err(
                Refusal::NotAChoice { .. } | Refusal::UnfitEdit { .. } | Refusal::DetailsChanged,
            ) = &result
            {
                law!(open, "P2: {origin} is told to answer better what was over: {command:?}");
            }
            if result.is_err() {
                let same = node.session.head() == head && step.events.len() == events;
                law!(same, "L5: {command:?} was refused and added something");
            }
            step.replies.push(Reply { request, result });
        }
        let open = node.session.open_approvals().next().map(|(_, open)| open.id.clone());
        if let Some(approval) = open.filter(|_| self.rng.per_mille(40)) {
            let command = Command::Expire { approval };
            let expired = node.decide(&mut step, command, &Origin::timeout(), Millis(self.now));
            self.figures.expired += usize::from(matches!(expired, Ok(Some(_))));
        }
        for _ in 0..1 + self.rng.below(8) {
            let Some((turn, report)) = node.reports.pop_front() else { break };
            self.now += self.rng.below(3) as i64;
            let command = Command::Report { turn, report };
            let result = node.decide(&mut step, command, &Origin::agent(), Millis(self.now));
            self.figures.stale_reports += usize::from(result == Err(Refusal::StaleTurn));
        }
        self.commit(epoch, step).map(drop)
    }

    /// Durable, then visible, then acknowledged, then acted on; a fault can interrupt it anywhere.
    fn commit(&mut self, epoch: u64, step: Step) -> Survived {
        let fault = self.fault();
        let events: Vec<Arc<Envelope>> = step.events.into_iter().map(Arc::new).collect();
        if let Some(first) = events.first() {
            match fault {
                Some(Fault::DiesBeforeAppend) => return self.cut(epoch, fault),
                // A recovery without the lease would only repeat the same situation.
                Some(Fault::LosesLease) if first.origin != Origin::system() => self.open()?,
                Some(Fault::AppendFails) => return self.stop(epoch, &step.replies, fault),
                _ => {}
            }
            let expected = Seq(first.seq.0 - 1);
            if self.disk.append(epoch, expected, &events).is_err() {
                law!(epoch != self.disk.epoch, "the owner's append was refused at {expected}");
                self.figures.stale_appends += 1;
                return self.stop(epoch, &step.replies, fault);
            }
            for envelope in &events {
                self.say(|| format!("  {} {:?}", envelope.seq, envelope.event));
                self.witness.read(envelope)?;
                self.replayed.apply(envelope);
            }
            match fault {
                Some(Fault::AppendLandsAndFails) => return self.stop(epoch, &step.replies, fault),
                Some(Fault::DiesAfterAppend) => return self.cut(epoch, fault),
                _ => {}
            }
            if let Some(node) = self.nodes.get_mut(&epoch) {
                node.publish(&events);
            }
            if fault == Some(Fault::DiesAfterPublish) {
                return self.cut(epoch, fault);
            }
        }
        for (sent, reply) in step.replies.into_iter().enumerate() {
            if fault == Some(Fault::DiesAmongReplies(sent)) {
                return self.cut(epoch, fault);
            }
            self.check_reply(epoch, reply)?;
        }
        for (done, effect) in step.effects.into_iter().enumerate() {
            if fault == Some(Fault::DiesAmongEffects(done)) {
                return self.cut(epoch, fault);
            }
            self.act(epoch, effect);
        }
        Ok(true)
    }

    fn act(&mut self, epoch: u64, effect: Effect) {
        if let Some(node) = self.nodes.get_mut(&epoch) {
            node.act(effect, &mut self.rng);
        }
    }

    fn fault(&mut self) -> Option<Fault> {
        if self.calm || !self.rng.per_mille(60) {
            return None;
        }
        let index = self.rng.below(3);
        Some(*self.rng.pick(&[
            Fault::DiesBeforeAppend,
            Fault::LosesLease,
            Fault::AppendFails,
            Fault::AppendLandsAndFails,
            Fault::DiesAfterAppend,
            Fault::DiesAfterPublish,
            Fault::DiesAmongReplies(index),
            Fault::DiesAmongEffects(index),
        ]))
    }

    /// The process crashes in the middle of a step.
    fn cut(&mut self, epoch: u64, fault: Option<Fault>) -> Survived {
        self.figures.cut_steps += 1;
        self.kill(epoch, &format!("{fault:?}")).map(|()| false)
    }

    /// Fail-stop: the callers learn that the outcome is unknown, then the process releases the session.
    fn stop(&mut self, epoch: u64, replies: &[Reply], fault: Option<Fault>) -> Survived {
        self.figures.failed_appends += 1;
        for reply in replies {
            let request = &mut self.requests[reply.request];
            if request.state == State::Waiting(epoch) {
                request.state = State::Unknown;
            }
        }
        self.kill(epoch, &format!("store, {fault:?}")).map(|()| false)
    }

    // ----------------------------------------------------------------------------------- replies

    /// A caller gets its reply. The reply must stay true from now on.
    fn check_reply(&mut self, epoch: u64, reply: Reply) -> Lawful {
        let request = &self.requests[reply.request];
        let origin = &self.clients[request.client].origin;
        self.say(|| format!("  {origin} is told {:?}", reply.result));
        let current = epoch == self.disk.epoch;
        let proof = match (&request.command, &reply.result) {
            (Command::Prompt { prompt, .. } | Command::Shell { prompt, .. }, Ok(_)) => {
                let accepted = self.witness.prompts.get(prompt);
                law!(accepted.is_some(), "P1: {prompt} is acknowledged and not in the log");
                self.figures.retried_prompts += usize::from(reply.result == Ok(None));
                accepted.map(|it| it.accepted)
            }
            (Command::Answer { to, choice, edit, .. }, result) => {
                let asked = self.asked(to);
                checks::informed(asked, choice, edit.as_ref(), origin, result, current)?;
                let answer = asked.and_then(|asked| asked.answer.as_ref());
                let won = answer.filter(|_| result.is_ok()).map(|answer| answer.seq);
                match result {
                    Ok(None) => self.figures.retried_answers += 1,
                    Ok(Some(_)) => self.figures.winners += 1,
                    Err(Refusal::AlreadyAnswered { .. }) => self.figures.losers += 1,
                    Err(_) => {}
                }
                won
            }
            (Command::Configure { settings }, Ok(Some(seq))) => {
                let changed = Event::SettingsChanged { settings: settings.clone() };
                law!(self.event(*seq) == Some(&changed), "P1: {settings:?} is not at {seq}");
                Some(*seq)
            }
            (Command::Name { name }, Ok(Some(seq))) => {
                let named = Event::SessionNamed { name: name.to_string() };
                law!(self.event(*seq) == Some(&named), "P1: the name {name} is not at {seq}");
                Some(*seq)
            }
            (Command::Amend { amendment }, Ok(Some(seq))) => {
                let amended = Event::PolicyAmended { amendment: amendment.clone() };
                law!(self.event(*seq) == Some(&amended), "P1: {amendment:?} is not at {seq}");
                Some(*seq)
            }
            (Command::Cancel { .. } | Command::Close { .. }, Ok(seq)) => *seq,
            _ => None,
        };
        if let Some(Seq(seq)) = proof {
            law!(self.disk.synced as u64 >= seq, "P1: {seq} is acknowledged and not on disk");
            self.acknowledged.push(self.disk.log[seq as usize - 1].clone());
        }
        let request = &mut self.requests[reply.request];
        if request.state == State::Waiting(epoch) {
            request.state = match reply.result {
                Ok(_) => State::Done,
                Err(refusal) => State::Refused(refusal),
            };
        }
        Ok(())
    }

    fn event(&self, seq: Seq) -> Option<&Event> {
        self.disk.log.get(seq.0 as usize - 1).map(|envelope| &envelope.event)
    }

    fn asked(&self, to: &Question) -> Option<&Approval> {
        let approval = match to {
            Question::Approval(approval) | Question::Both { approval, .. } => approval,
            Question::Call(call) => self.witness.calls.get(call)?.approval.as_ref()?,
        };
        self.witness.approvals.get(approval)
    }

    // -------------------------------------------------------------------------------- the agents

    fn agent_step(&mut self, epoch: u64) -> Lawful {
        let Some(node) = self.nodes.get_mut(&epoch) else { return Ok(()) };
        if node.reports.len() >= REPORT_INBOX {
            return Ok(()); // the agent waits
        }
        if let Some(turn) = node.leaving.pop() {
            let report = loggia_core::Report::Text { message: "late".into(), text: "…".into() };
            node.reports.push_back((turn, report));
            return Ok(());
        }
        let Some(agent) = node.agent.as_mut().filter(|agent| !agent.gone) else { return Ok(()) };
        let turn = agent.turn.clone();
        let doings: Vec<Doing> = match self.rng.below(1000) {
            0..5 if !self.calm => agent.crash().into(),
            5..25 if !self.calm => vec![agent.misbehave(&mut self.rng)],
            _ => agent.step(&mut self.rng, &mut self.names),
        };
        for doing in doings {
            match doing {
                Doing::Report(report) => node.reports.push_back((turn.clone(), report)),
                Doing::Run(call, details) => {
                    // The lease is checked once more before a program starts.
                    if epoch != self.disk.epoch {
                        self.figures.void_permits += 1;
                        return Ok(());
                    }
                    return self.execute(call, details);
                }
                Doing::Wait => {}
            }
        }
        Ok(())
    }

    /// The outside world changes irreversibly.
    fn execute(&mut self, call: CallId, details: Details) -> Lawful {
        self.say(|| format!("{call} runs"));
        let known = self.witness.calls.get(&call);
        let started = known.and_then(|known| known.started);
        let Some((known, Seq(started))) = known.zip(started) else {
            return Err(format!("P3: {call} runs and its start is not in the log"));
        };
        law!(self.disk.synced as u64 >= started, "P3: {call} runs before its start is on disk");
        law!(known.ended.is_none(), "P3: {call} runs after it ended");
        law!(known.details == details, "P4: {call} runs something else than was approved");
        let again = self.ledger.insert(call.clone(), details).is_some();
        law!(!again, "P3: {call} runs twice");
        self.figures.executions += 1;
        Ok(())
    }

    // ------------------------------------------------------------------------------- the clients

    fn client_step(&mut self) -> Lawful {
        let number = self.rng.below(self.clients.len());
        let Some(epoch) = self.connected(number) else { return Ok(()) };
        match self.rng.below(100) {
            0..45 => {
                let limit = 1 + self.rng.below(12);
                self.client_reads(number, epoch, limit)
            }
            45..50 => {
                self.disconnect(number);
                Ok(())
            }
            50..65 => {
                let unknown = self.unknown_of(number);
                if let Some(request) = self.rng.maybe_pick(&unknown).copied() {
                    self.send(request, epoch);
                }
                Ok(())
            }
            // A duplicate of an acknowledged command, such as from a proxy or a double click.
            65..68 => {
                let own = (0..self.requests.len()).filter(|it| self.requests[*it].client == number);
                let own: Vec<usize> = own.collect();
                if let Some(request) = self.rng.maybe_pick(&own).copied() {
                    self.send(request, epoch);
                }
                Ok(())
            }
            _ => {
                if let Some(command) = self.clients[number].next_command(number, &mut self.rng) {
                    let state = State::Unknown;
                    self.requests.push(Request { client: number, command, state });
                    self.send(self.requests.len() - 1, epoch);
                }
                Ok(())
            }
        }
    }

    fn connected(&mut self, number: usize) -> Option<u64> {
        let held = self.clients[number].node.filter(|epoch| self.nodes.contains_key(epoch));
        if held.is_none() {
            self.disconnect(number);
        }
        let epochs: Vec<u64> = self.nodes.keys().copied().collect();
        let epoch = held.or_else(|| match self.rng.percent(90) {
            true => epochs.last().copied(),
            false => self.rng.maybe_pick(&epochs).copied(),
        });
        self.clients[number].node = epoch;
        epoch
    }

    /// It keeps its cursor only; it gets no replies to its open requests.
    fn disconnect(&mut self, number: usize) {
        self.clients[number].node = None;
        for request in self.requests.iter_mut().filter(|request| request.client == number) {
            if let State::Waiting(_) = request.state {
                request.state = State::Unknown;
            }
        }
    }

    fn client_reads(&mut self, number: usize, epoch: u64, limit: usize) -> Lawful {
        let client = &mut self.clients[number];
        let Some(node) = self.nodes.get(&epoch) else { return Ok(()) };
        for envelope in node.read(client.seen.len(), limit, &self.disk.log) {
            let expected = client.seen.len() + 1;
            let next = envelope.seq.0 == expected as u64;
            law!(next, "P5: client {number} reads {} instead of {expected}", envelope.seq);
            let durable = self.disk.log.get(expected - 1);
            let same = durable.is_some_and(|it| Arc::ptr_eq(it, &envelope));
            law!(same, "P5: client {number} reads {} and the log says {durable:?}", envelope.seq);
            client.read(&envelope);
        }
        Ok(())
    }

    fn unknown_of(&self, number: usize) -> Vec<usize> {
        let wanted =
            |request: &Request| request.client == number && request.state == State::Unknown;
        (0..self.requests.len()).filter(|index| wanted(&self.requests[*index])).collect()
    }

    /// If the inbox is full, the caller is told so and may retry.
    fn send(&mut self, request: usize, epoch: u64) {
        let Some(node) = self.nodes.get_mut(&epoch) else { return };
        if node.control.len() >= CONTROL_INBOX {
            self.figures.busy += 1;
            return;
        }
        node.control.push_back(request);
        self.requests[request].state = State::Waiting(epoch);
        let it = &self.requests[request];
        self.say(|| format!("client {} to node {epoch}: {:?}", it.client, it.command));
    }

    // ------------------------------------------------------------------------------------ faults

    fn kill(&mut self, epoch: u64, why: &str) -> Lawful {
        self.say(|| format!("node {epoch} dies: {why}"));
        self.figures.kills += 1;
        self.nodes.remove(&epoch);
        for request in &mut self.requests {
            if request.state == State::Waiting(epoch) {
                request.state = State::Unknown;
            }
        }
        Ok(())
    }

    /// Every process crashes, and unsynced appends may be lost, the newest first.
    fn power_cut(&mut self) -> Lawful {
        let epochs: Vec<u64> = self.nodes.keys().copied().collect();
        for epoch in epochs {
            self.kill(epoch, "power")?;
        }
        let ends = self.disk.unsynced();
        let end = self.rng.maybe_pick(&ends).copied().unwrap_or(self.disk.log.len());
        let lost = self.disk.power_cut(end);
        self.say(|| format!("the power cut takes {} events", lost.len()));
        self.figures.power_cuts += 1;
        self.figures.lost_events += lost.len();
        for envelope in &lost {
            let stream = envelope.event.durability() == Durability::Stream;
            law!(stream, "R05: the power cut took a decision, {:?}", envelope.event);
        }
        for number in 0..self.clients.len() {
            self.disconnect(number);
            let client = &mut self.clients[number];
            if client.embedded {
                client.forget();
            } else if client.seen.len() > end {
                // A remote reader saw events that are lost, and their numbers will be used again. It has
                // to be told, and it drops these events.
                client.seen.truncate(end);
                self.figures.cut_readers += 1;
            }
        }
        self.witness = Witness::of(self.disk.log.iter().map(Arc::as_ref))?;
        self.replayed = fold(self.disk.log.iter().map(Arc::as_ref));
        self.check_acknowledged()
    }

    /// The wall clock is set forward or back.
    fn jump(&mut self) {
        self.figures.clock_jumps += 1;
        self.now = match self.rng.below(6) {
            0 => 0,
            1 => -1,
            2 => self.now + 86_400_000,
            3 => self.now - 86_400_000,
            4 => self.now - 3_600_000,
            _ => 1_767_225_600_000,
        };
    }

    fn say(&self, line: impl FnOnce() -> String) {
        if self.trace {
            println!("{}", line());
        }
    }
}

/// The command answers a question that is open.
fn is_open(session: &Session, command: &Command) -> bool {
    let Command::Answer { to, .. } = command else { return false };
    session.open_approvals().any(|(call, approval)| to.is(&call.id, &approval.id))
}
