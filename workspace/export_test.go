package workspace

// Merge is [Dir.Merge] without a directory.
func Merge(base, ours, theirs []byte) ([]byte, string) { return (*Dir)(nil).Merge(base, ours, theirs) }

// SetBudget gives snapshots of d another budget.
func (d *Dir) SetBudget(bytes int64, levels int) { d.budget.bytes, d.budget.levels = bytes, levels }

// SetListNames makes restores of d list directories with list.
func (d *Dir) SetListNames(list func(dir string) ([]string, error)) { d.listNames = list }
