package storetest

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	noVersions  = "none: a value has no version, the checkpoint that set it has an id; scheduler data is ordinary State"
	noRemoval   = "none: a checkpoint is never removed from its line; a run is undone, or its thread is deleted"
	noThinning  = "none: a collection keeps the whole line of a head"
	noChannels  = "none: a state is loaded as a whole"
	noMigration = "none: a value has one format; files of older versions are tested in each store"
)

// langGraph maps each test of LangGraph's conformance suite (langgraph-checkpoint-conformance 0.0.2)
// to the test here that has the same rule, or to the reason why there is none.
var langGraph = map[string]string{
	"put_returns_config":                   "saver/round trip",
	"put_roundtrip":                        "saver/round trip",
	"put_preserves_channel_values":         "saver/any value",
	"put_preserves_channel_versions":       noVersions,
	"put_preserves_versions_seen":          noVersions,
	"put_preserves_versions_seen_values":   noVersions,
	"put_preserves_metadata":               "saver/meta is of one checkpoint",
	"put_root_namespace":                   "saver/namespaces are separate",
	"put_child_namespace":                  "saver/namespaces are separate",
	"put_default_namespace":                "none: an omitted namespace and an empty one are the same Go value",
	"put_multiple_checkpoints_same_thread": "travel/any journey",
	"put_multiple_threads_isolated":        "saver/hostile addresses",
	"put_parent_config":                    "travel/any journey",
	"put_incremental_channel_update":       "saver/state",
	"put_new_channel_added":                "saver/state",
	"put_channel_removed":                  "saver/state",
	"put_preserves_run_id":                 "travel/any journey",

	"put_writes_basic":                       "state/an intent without a result",
	"put_writes_multiple_writes_same_task":   "state/an intent without a result",
	"put_writes_multiple_tasks":              "state/an intent without a result",
	"put_writes_preserves_task_id":           "state/an intent without a result",
	"put_writes_preserves_channel_and_value": "state/an intent without a result",
	"put_writes_task_path":                   "list/any query of threads",
	"put_writes_idempotent":                  "state/an intent without a result",
	"put_writes_special_channels":            "state/an answer is recorded",
	"put_writes_across_namespaces":           "interrupt/refused",
	"put_writes_cleared_on_next_checkpoint":  "state/an intent without a result",

	"get_tuple_nonexistent_returns_none":     "saver/nothing there",
	"get_tuple_latest_when_no_checkpoint_id": "saver/round trip",
	"get_tuple_specific_checkpoint_id":       "travel/any journey",
	"get_tuple_config_structure":             "saver/hostile addresses",
	"get_tuple_checkpoint_fields":            "saver/round trip",
	"get_tuple_metadata":                     "saver/round trip",
	"get_tuple_parent_config":                "travel/any journey",
	"get_tuple_pending_writes":               "interrupt/several wait at once",
	"get_tuple_respects_namespace":           "saver/namespaces are separate",
	"get_tuple_nonexistent_checkpoint_id":    "history/missing checkpoints",

	"list_all":                           "travel/any journey",
	"list_by_thread":                     "travel/any journey",
	"list_by_namespace":                  "travel/any journey",
	"list_ordering":                      "travel/any journey",
	"list_metadata_filter_single_key":    "list/any query of checkpoints",
	"list_metadata_filter_step":          "list/any query of checkpoints",
	"list_metadata_filter_multiple_keys": "list/any query of checkpoints",
	"list_metadata_filter_no_match":      "list/any query of checkpoints",
	"list_metadata_custom_keys":          "list/any query of checkpoints",
	"list_before":                        "travel/any journey",
	"list_limit":                         "travel/any journey",
	"list_limit_plus_before":             "travel/any journey",
	"list_combined_thread_and_filter":    "travel/any journey",
	"list_empty_result":                  "travel/any journey",
	"list_includes_pending_writes":       "none: a history has no states; open questions are loaded with their checkpoint",
	"list_multiple_namespaces":           "travel/any journey",

	"delete_thread_removes_checkpoints":     "history/missing checkpoints",
	"delete_thread_removes_writes":          "saver/delete",
	"delete_thread_removes_all_namespaces":  "saver/namespaces are separate",
	"delete_thread_preserves_other_threads": "saver/namespaces are separate",
	"delete_thread_nonexistent_noop":        "saver/delete missing is fine",

	"delete_for_runs_single":               noRemoval,
	"delete_for_runs_multiple":             noRemoval,
	"delete_for_runs_preserves_other_runs": noRemoval,
	"delete_for_runs_removes_writes":       noRemoval,
	"delete_for_runs_empty_list_noop":      noRemoval,
	"delete_for_runs_nonexistent_noop":     noRemoval,
	"delete_for_runs_across_namespaces":    noRemoval,

	"copy_thread_basic":                "fork/undo in a fork",
	"copy_thread_all_checkpoints":      "fork/undo in a fork",
	"copy_thread_preserves_metadata":   "fork/a fork is a copy",
	"copy_thread_preserves_namespaces": "travel/any journey",
	"copy_thread_preserves_writes":     "fork/a fork is a copy",
	"copy_thread_preserves_ordering":   "fork/undo in a fork",
	"copy_thread_source_unchanged":     "fork/a fork is a copy",
	"copy_thread_nonexistent_source":   "fork/refused forks",

	"prune_keep_latest_single_thread":     noThinning,
	"prune_keep_latest_multiple_threads":  noThinning,
	"prune_keep_latest_across_namespaces": "collect/states stay",
	"prune_keep_latest_preserves_writes":  "collect/states stay",
	"prune_delete_all":                    "collect/a deleted thread",
	"prune_preserves_other_threads":       "collect/states stay",
	"prune_empty_list_noop":               "collect/a deleted thread",
	"prune_nonexistent_noop":              "none: a collection has no list of threads",

	"history_returns_writes_oldest_first":           "saver/messages",
	"history_seed_is_nearest_snapshot":              "saver/messages",
	"history_excludes_target_pending_writes":        "state/an intent without a result",
	"history_multi_channel":                         "travel/any journey",
	"history_empty_channels_returns_empty":          noChannels,
	"history_walk_to_root_no_seed":                  "saver/messages",
	"history_migration_plain_value_as_seed":         noMigration,
	"history_seed_ancestor_own_writes_are_replayed": "saver/messages",
}

// TestLangGraph requires that each of the 89 tests has a test here that exists, or a reason.
func TestLangGraph(t *testing.T) {
	tests := map[string]bool{}
	for _, g := range storeGroups() {
		for _, x := range g.tests {
			tests[g.name+"/"+x.name] = true
		}
	}
	if len(langGraph) != 89 {
		t.Errorf("%d tests; want 89", len(langGraph))
	}
	for name, here := range langGraph {
		if !tests[here] && !strings.HasPrefix(here, "none: ") {
			t.Errorf("%s: there is no test %q", name, here)
		}
	}
}

// TestNamesAreUnique requires that -run selects one test by its full name, "watch" and "wait" aside.
func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range storeGroups() {
		for _, x := range g.tests {
			name := g.name + "/" + x.name
			if seen[name] || x.rule == "" || x.run == nil {
				t.Errorf("%s: a duplicate, or without a rule", name)
			}
			seen[name] = true
		}
	}
}
