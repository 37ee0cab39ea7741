package proc_test

import (
	"os"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/internal/testing/containerrig"
)

// TestProcessesOfContainersAreSeen looks for a process of another PID namespace. Only a process outside of all containers sees it.
func TestProcessesOfContainersAreSeen(t *testing.T) {
	here := proc.Machine()
	boot, namespace, _ := strings.Cut(here, "/")
	isOutside := namespace == "pid:[4026531836]"
	c := containerrig.Start(t)
	if alive, isSeen := proc.AliveOn(c.Machine, c.PID, c.Start); isSeen != isOutside || alive != isOutside {
		t.Errorf("a process of a container: %v, %v", alive, isSeen)
	}
	if alive, isSeen := proc.AliveOn(c.Machine, c.PID, "1"+c.Start); isSeen != isOutside || alive {
		t.Errorf("an earlier process of a container with its number: %v, %v", alive, isSeen)
	}
	c.End()
	if alive, isSeen := proc.AliveOn(c.Machine, c.PID, c.Start); isSeen != isOutside || alive {
		t.Errorf("a process of a container that ended: %v, %v", alive, isSeen)
	}
	for _, machine := range []string{"", here} {
		if alive, isSeen := proc.AliveOn(machine, os.Getpid(), proc.Start(os.Getpid())); !alive || !isSeen {
			t.Errorf("this process on the machine %q: %v, %v", machine, alive, isSeen)
		}
	}
	if alive, isSeen := proc.AliveOn("an-earlier-"+boot+"/"+namespace, os.Getpid(), ""); alive || !isSeen {
		t.Errorf("a process before the machine was started: %v, %v", alive, isSeen)
	}
}
