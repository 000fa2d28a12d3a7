//! Which test shows which entry of the catalogue of attacks (A) and faults (R) that the server must
//! stand. All of them run against the real binary over real sockets, except those in `front_door`,
//! which run the same front door with shorter clocks, other users and namespaces.

/// Number, file below `crates/`, test.
const SHOWN: &[(&str, &str, &str)] = &[
    ("A01", ATTACKS, "another_user_gets_nothing_but_the_card"),
    ("A02", REFUSED, "foreign_hosts_origins_and_forms_are_refused"),
    ("A02", "loggia-server/tests/front_door/hosts.rs", "only_our_own_names_are_answered"),
    ("A03", REFUSED, "foreign_hosts_origins_and_forms_are_refused"),
    ("A03", "loggia-server/tests/front_door/hosts.rs", "a_page_cannot_open_a_websocket"),
    ("A04", REFUSED, "foreign_hosts_origins_and_forms_are_refused"),
    ("A04", "loggia-server/tests/front_door/hosts.rs", "what_changes_something_is_json"),
    ("A05", ATTACKS, "only_loopback_is_listened_on"),
    ("A07", ATTACKS, "another_user_gets_nothing_but_the_card"),
    ("A07", ATTACKS, "what_is_on_disk_is_private"),
    ("A08", TOKENS, "published_credentials_open_nothing_unless_asked_for"),
    ("A09", TOKENS, "guessing_secrets_is_slow_and_locks_out_nobody_else"),
    ("A10", "loggia-server/src/auth/secret.rs", "a_client_that_does_not_exist_costs_as_much"),
    ("A11", TOKENS, "tokens_that_were_not_given_open_nothing"),
    ("A11", ACCESS, "nothing_in_a_token_chooses_how_it_is_checked"),
    ("A12", ATTACKS, "nobody_declares_their_own_privileges"),
    ("A13", "loggia/tests/e2e/isolation.rs", "another_principals_task_is_not_found"),
    ("A13", "loggia/tests/e2e/isolation.rs", "a_contexts_name_is_its_clients_own"),
    ("A15", ATTACKS, "a_token_does_not_help_a_command"),
    ("A15", TOKENS, "a_secret_does_not_help_a_command"),
    ("A15", REFUSED, "a_tool_cannot_answer_its_own_question"),
    ("A16", "loggia/tests/e2e/shared.rs", "what_is_shown_is_what_runs"),
    ("A17", ATTACKS, "what_changed_since_the_question_is_not_written"),
    ("A18", ATTACKS, "bad_repeated_and_late_answers_change_nothing"),
    ("A38", REFUSED, "malformed_requests_get_the_right_error"),
    ("A38", FLOODS, "malformed_frames_get_the_right_error"),
    ("A39", FLOODS, "size_and_depth_bombs_are_refused_and_leave_nothing"),
    ("A40", FLOODS, "slow_heads_and_silent_sockets_are_let_go"),
    ("A41", FLOODS, "floods_on_a_socket_end_that_socket_at_most"),
    ("A41", "loggia-server/tests/front_door/slow.rs", "http2_floods_end_their_own_connection"),
    ("A42", TOKENS, "secrets_and_tokens_are_written_down_nowhere"),
    ("A42", "loggia/tests/e2e/secrets.rs", "canaries_are_written_down_nowhere"),
    ("A42", "loggia/tests/e2e/push.rs", "secrets_stay_secret"),
    ("R06", "loggia/tests/e2e/shared.rs", "a_cut_stream_is_resumed_exactly_also_after_a_crash"),
    ("R07", "loggia/tests/e2e/shared.rs", "a_cut_stream_is_resumed_exactly_also_after_a_crash"),
    ("R08", FAULTS, "a_late_reader_gets_ten_thousand_events"),
    ("R09", FAULTS, "a_reader_that_stalls_costs_nothing_and_loses_nothing"),
    ("R10", CROWD, "of_a_hundred_answers_one_wins_a_thousand_times"),
    ("R11", CROWD, "two_thousand_readers_miss_nothing_and_the_writer_does_not_notice"),
    ("R11", FAULTS, "the_server_may_open_many_files_and_its_commands_as_many_as_before"),
    ("R19", FAULTS, "a_full_disk_is_said_and_forgotten_when_there_is_room"),
    ("R23", ACCESS, "clocks_may_differ_by_thirty_seconds"),
    ("R24", REFUSED, "ports_that_cannot_be_had"),
    ("R31", FAULTS, "stopping_ends_streams_in_order_and_keeps_questions"),
    ("R31", FAULTS, "the_second_signal_ends_it_at_once"),
    ("R33", FAULTS, "running_out_of_files_delays_and_breaks_nothing"),
];

const ATTACKS: &str = "loggia/tests/e2e/attacks.rs";
const TOKENS: &str = "loggia/tests/e2e/oauth_attacks.rs";
const ACCESS: &str = "loggia-server/src/auth/access_tests.rs";
const REFUSED: &str = "loggia/tests/e2e/refused.rs";
const FLOODS: &str = "loggia/tests/e2e/floods.rs";
const FAULTS: &str = "loggia/tests/e2e/served_faults.rs";
const CROWD: &str = "loggia/tests/e2e/crowd.rs";

/// What the server has promised to stand.
const PROMISED: &[&str] = &[
    "A01", "A02", "A03", "A04", "A05", "A07", "A08", "A09", "A10", "A11", "A12", "A13", "A15",
    "A16", "A17", "A18", "A38", "A39", "A40", "A41", "A42", "R06", "R07", "R08", "R09", "R10",
    "R11", "R19", "R23", "R24", "R31", "R33",
];

#[test]
fn every_promise_has_a_test_and_every_test_is_there() {
    for promise in PROMISED {
        assert!(SHOWN.iter().any(|(number, _, _)| number == promise), "nothing shows {promise}");
    }
    for (number, file, test) in SHOWN {
        assert!(PROMISED.contains(number), "{number} is not promised");
        let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(&format!("fn {test}()")), "{number}: {file} has no test {test}");
    }
}
