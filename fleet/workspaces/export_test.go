package workspaces

// Abandon releases the lock as the end of a killed process does.
func (d *Checkout) Abandon() error { return d.lock.Close() }

// SetBoot makes the machine have started again.
func (c *Cache) SetBoot(id string) { c.boot = id }
