package workspaces

import "syscall"

// Abandon releases the lock as the end of a killed process does.
func (d *Checkout) Abandon() error { return d.lock.Close() }

// SetBoot makes the machine have started again.
func (c *Cache) SetBoot(id string) { c.boot = id }

// Inherit returns another descriptor of the lock, which a process has that is being started and does not run its program yet.
func (d *Checkout) Inherit() (fd int, err error) { return syscall.Dup(int(d.lock.Fd())) }
