// Package executable writes programs that tests run, such as shell scripts.
package executable

import (
	"os"
	"syscall"
)

// Write writes a program that any process may run when Write returns. A process that another goroutine starts meanwhile would have the file
// open for writing until it runs its own program, and the system runs no file that is open for writing (ETXTBSY). So no process is started
// while Write has the file open.
func Write(name string, data []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(name, data, 0o755)
}
