package cli_test

import (
	"os"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdForeign sets a variable to a directory that belongs to another user. If root runs the tests,
// it makes a directory and changes its owner. Otherwise it uses a small directory of root's.
//
//	foreign NAME
func cmdForeign(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: foreign NAME")
	}
	if os.Geteuid() == 0 {
		dir := ts.MkAbs("foreign")
		ts.Check(os.Mkdir(dir, 0o755))
		ts.Check(os.WriteFile(dir+"/file", []byte("theirs"), 0o644))
		ts.Check(os.Chown(dir, 65534, 65534))
		ts.Setenv(args[0], dir)
		return
	}
	for _, dir := range []string{"/srv", "/mnt", "/media", "/opt"} {
		if fi, err := os.Stat(dir); err == nil && fi.IsDir() && int(fi.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
			ts.Setenv(args[0], dir)
			return
		}
	}
	ts.Fatalf("this machine has no small directory of another user's")
}
