package proc_test

import (
	"os"
	"testing"

	"github.com/dalsegno/segno/internal/proc"
)

// TestAge compares the age of this process with that of its parent, which is older.
func TestAge(t *testing.T) {
	own, parents := proc.Age(os.Getpid()), proc.Age(os.Getppid())
	if own <= 0 || own > parents {
		t.Errorf("this process is %s old, and its parent %s", own, parents)
	}
	if age := proc.Age(-1); age != 0 {
		t.Errorf("no process is %s old", age)
	}
}
