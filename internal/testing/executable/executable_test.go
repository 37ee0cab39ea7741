package executable

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// TestWrite writes and runs scripts in several goroutines.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := range 20 {
				name := filepath.Join(dir, fmt.Sprint(worker, " ", n))
				err := Write(name, []byte("#!/bin/sh\n"))
				if err == nil {
					err = exec.CommandContext(t.Context(), name).Run()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
