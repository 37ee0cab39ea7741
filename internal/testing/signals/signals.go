// Package signals makes tests independent of the shell that started them.
//
// A process inherits which signals are ignored. nohup starts commands with SIGHUP ignored, and some shells start
// background commands with SIGINT and SIGQUIT ignored. The programs under test would then not end with their terminal.
package signals

import (
	"os"
	"os/signal"
	"syscall"
)

// Restore lets the processes that this one starts receive the signals that it ignores. The process itself still does
// nothing when it receives one. A TestMain calls it.
func Restore() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // the system resets a handler in a new program
		}
	}
}
