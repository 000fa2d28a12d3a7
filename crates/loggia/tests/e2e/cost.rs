//! The cost of a session in the status line and in `/stats`.

use crate::driver::Machine;
use crate::screen::Screen;

const USAGE: &str = "[[rule]]\n\
    steps = [{ text = \"done\" }, { usage = { input = 40000, output = 2000, cached = 10000 } }]\n";

#[test]
fn tokens_cost_what_the_configuration_says() {
    let machine = Machine::new();
    let model = machine.script("m.toml", USAGE);
    machine.configure("[prices.other]\ninput = 1\noutput = 1\n");
    let mut screen = Screen::sized(&machine, &["--model", &model], &[], (200, 20));
    screen.sees("what shall I do?").types("go\r").sees("· 40k in, 2.0k out · ? help");
    drop(screen);
    machine.configure(&format!(
        "[prices]\ncurrency = \"EUR\"\n[prices.\"{model}\"]\ninput = 2.5\noutput = 10\n\
         cached_input = 0.25\n"
    ));
    let arguments = ["--continue", "--model", &model];
    let mut screen = Screen::sized(&machine, &arguments, &[], (200, 20));
    screen.sees("· 40k in, 2.0k out · 0.0975 EUR · ? help").types("again\r");
    screen.sees("· 80k in, 4.0k out · 0.1950 EUR · ? help").types("/stats\r");
    screen.sees(": 0.1950 EUR (80000 in, 4000 out)");
    let shown = machine.run(&["config"]).out;
    assert!(shown.contains(": 2.50 in, 10.00 out, 0.25 cached"), "{shown}");
}
