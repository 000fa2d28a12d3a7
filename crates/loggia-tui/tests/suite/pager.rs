//! The transcript view: scrolling, following, folding, searching, resizing.

use loggia_core::{CallState, Cell, CellBody};
use ratatui::style::Modifier;

use super::generate::{call, cell, shell, text};
use super::snapshot_text::Screen;

/// One-line texts, `cell 1` to `cell n`, with an empty line between them.
fn numbered(count: usize) -> Vec<Cell> {
    (1..=count).map(|number| text(&format!("cell {number}"))).collect()
}

/// The non-empty rows.
fn solid(screen: &mut Screen, cells: &[Cell]) -> Vec<String> {
    screen.rows(cells).into_iter().filter(|row| !row.is_empty()).collect()
}

#[test]
fn a_new_screen_shows_the_end_and_follows_it() {
    let mut screen = Screen::new(20, 6);
    let mut cells = numbered(10);
    assert_eq!(solid(&mut screen, &cells), ["cell 8", "cell 9", "cell 10"]);
    cells.push(text("new"));
    assert_eq!(solid(&mut screen, &cells), ["cell 9", "cell 10", "new"]);
    assert!(screen.pager.is_following());
}

#[test]
fn a_short_transcript_starts_at_the_top() {
    let mut screen = Screen::new(20, 6);
    assert_eq!(screen.rows(&numbered(2)), ["cell 1", "", "cell 2", "", "", ""]);
    assert_eq!(screen.rows(&[]), [""; 6]);
}

#[test]
fn the_view_stays_while_the_end_grows() {
    let mut screen = Screen::new(20, 5);
    let mut cells = numbered(20);
    screen.rows(&cells);
    screen.act(&cells, |pager, scene| pager.scroll_up(scene, 10));
    let before = screen.rows(&cells);
    assert!(!screen.pager.is_following());
    for number in 0..50 {
        cells.push(text(&format!("more {number}")));
    }
    assert_eq!(screen.rows(&cells), before);
    screen.act(&cells, |pager, scene| pager.scroll_down(scene, 1_000));
    assert!(screen.pager.is_following());
    assert_eq!(solid(&mut screen, &cells).last().unwrap(), "more 49");
}

#[test]
fn a_text_grows_in_place() {
    let mut screen = Screen::new(30, 4);
    let mut cells = numbered(3);
    let mut whole = String::new();
    for piece in ["Hel", "lo *wor", "ld*\n\nne", "xt ", "`code", "`"] {
        whole.push_str(piece);
        let last = cells.len() - 1;
        cells[last] = text(&whole);
        screen.rows(&cells);
    }
    assert_eq!(screen.rows(&cells), ["", "Hello world", "", "next code"]);
}

#[test]
fn pages_and_ends() {
    let mut screen = Screen::new(20, 7);
    let cells = numbered(30);
    screen.rows(&cells);
    screen.pager.to_top();
    assert_eq!(solid(&mut screen, &cells), ["cell 1", "cell 2", "cell 3", "cell 4"]);
    screen.act(&cells, |pager, scene| pager.page_down(scene));
    assert_eq!(solid(&mut screen, &cells), ["cell 4", "cell 5", "cell 6"]);
    screen.act(&cells, |pager, scene| pager.page_up(scene));
    assert_eq!(solid(&mut screen, &cells)[0], "cell 1");
    screen.pager.to_bottom();
    assert_eq!(solid(&mut screen, &cells).last().unwrap(), "cell 30");
    assert_eq!(screen.pager.position().total, 59);
}

#[test]
fn a_call_is_opened_and_closed() {
    let output: String = (1..=30).map(|line| format!("line {line}\n")).collect();
    let mut running = shell("make");
    (running.state, running.live) = (CallState::Started, output);
    let cells = vec![text("before"), call(running), text("after")];
    let mut screen = Screen::new(30, 12);
    let closed = screen.rows(&cells);
    assert!(closed.contains(&"  … 25 more lines".to_owned()), "{closed:#?}");
    let clicked = screen.act(&cells, |pager, scene| pager.cell_at(scene, 3));
    assert_eq!(clicked, Some(1));
    screen.act(&cells, |pager, scene| pager.toggle(scene, 1));
    let opened = screen.rows(&cells);
    assert_eq!(opened[2..5], ["⠋ Run `make`", "  in /w", "  line 1"], "{opened:#?}");
    screen.act(&cells, |pager, scene| pager.toggle(scene, 1));
    assert_eq!(screen.rows(&cells), closed);
}

#[test]
fn the_focus_walks_over_the_cells() {
    let cells = vec![
        text("first"),
        cell(CellBody::TurnEnd { outcome: loggia_core::TurnOutcome::Completed }),
        cell(CellBody::Thought {
            subject: "Why".into(),
            text: "one\n\ntwo".into(),
            discarded: false,
        }),
    ];
    let mut screen = Screen::new(30, 10);
    screen.rows(&cells);
    screen.act(&cells, |pager, scene| pager.focus_next(scene));
    assert_eq!(screen.pager.focused(), Some(0));
    screen.act(&cells, |pager, scene| pager.focus_next(scene));
    assert_eq!(screen.pager.focused(), Some(2), "what shows nothing is passed over");
    let buffer = screen.buffer(&cells);
    assert!(buffer[(0, 2)].modifier.contains(Modifier::REVERSED));
    screen.act(&cells, |pager, scene| pager.toggle_focused(scene));
    assert_eq!(solid(&mut screen, &cells)[1..], ["∴ Why", "  one", "  two"]);
    screen.act(&cells, |pager, scene| pager.focus_previous(scene));
    assert_eq!(screen.pager.focused(), Some(0));
}

#[test]
fn a_search_goes_around() {
    let mut screen = Screen::new(20, 5);
    let cells = numbered(40);
    screen.rows(&cells);
    screen.pager.to_top();
    screen.rows(&cells);
    let searched = screen.act(&cells, |pager, scene| {
        pager.begin_search(scene);
        pager.search(scene, "cell 2") && pager.search(scene, "CELL 2") | true
    });
    assert!(searched);
    assert!(screen.act(&cells, |pager, scene| pager.search(scene, "cell 2")));
    assert!(solid(&mut screen, &cells).contains(&"cell 2".to_owned()));
    assert!(screen.act(&cells, |pager, scene| pager.search_next(scene)));
    assert!(solid(&mut screen, &cells).contains(&"cell 20".to_owned()));
    assert!(screen.act(&cells, |pager, scene| pager.search_previous(scene)));
    assert!(screen.act(&cells, |pager, scene| pager.search_previous(scene)));
    assert!(solid(&mut screen, &cells).contains(&"cell 29".to_owned()), "around");
    assert!(!screen.act(&cells, |pager, scene| pager.search(scene, "nowhere")));
    assert!(!screen.act(&cells, |pager, scene| pager.search(scene, "CELL 2")), "capitals count");
}

#[test]
fn matches_are_marked_and_expanded() {
    let thought = CellBody::Thought {
        subject: "Plan".into(),
        text: "line one\n\nthe needle is here".into(),
        discarded: false,
    };
    let mut cells = numbered(20);
    cells[3] = cell(thought);
    let mut screen = Screen::new(30, 6);
    screen.rows(&cells);
    screen.act(&cells, |pager, scene| pager.begin_search(scene));
    assert!(
        screen.act(&cells, |pager, scene| pager.search(scene, "Needle".to_lowercase().as_str()))
    );
    let rows = screen.rows(&cells);
    let row = rows.iter().position(|row| row == "  the needle is here").expect("opened and shown");
    let buffer = screen.buffer(&cells);
    let marked: String = (0..30)
        .filter(|x| buffer[(*x, row as u16)].modifier.contains(Modifier::REVERSED))
        .map(|x| buffer[(x, row as u16)].symbol())
        .collect();
    assert_eq!(marked, "needle");
    screen.pager.clear_search();
    assert!(!screen.buffer(&cells)[(6, row as u16)].modifier.contains(Modifier::REVERSED));
}

#[test]
fn a_resize_keeps_the_place() {
    let long: String = (0..400).map(|word| format!("word{word} ")).collect();
    let mut cells = numbered(10);
    cells.insert(5, text(&long));
    let mut screen = Screen::new(40, 6);
    screen.rows(&cells);
    screen.pager.to_top();
    screen.rows(&cells);
    screen.act(&cells, |pager, scene| pager.scroll_down(scene, 50));
    let mut first = |width: u16| -> i32 {
        screen.width = width;
        let row = screen.rows(&cells).swap_remove(0);
        let word = row.split(' ').next().and_then(|word| word.strip_prefix("word"));
        word.unwrap_or_else(|| panic!("a word in {row:?}")).parse().unwrap()
    };
    let wide = first(40);
    assert!(wide > 100);
    for width in [20, 80, 33, 40] {
        let now = first(width);
        assert!((now - wide).abs() < 30, "word {wide} became word {now} at {width}");
    }
}

#[test]
fn heights_become_known_in_idle_time() {
    let cells: Vec<Cell> = (0..400).map(|_| text("a\n\nb\n\nc")).collect();
    let mut screen = Screen::new(20, 5);
    screen.rows(&cells);
    let mut steps = 0;
    while screen.act(&cells, |pager, scene| pager.measure(scene, 16)) {
        steps += 1;
        assert!(steps < 100);
    }
    assert_eq!(screen.pager.position().total, 400 * 6 - 1);
    assert_eq!(screen.pager.position().line, 400 * 6 - 1 - 5);
}
