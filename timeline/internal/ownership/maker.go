package ownership

import "path"

// Maker returns the id of the call that made a change to a path, or "" if the calls do not show which one did. gone is
// set if the path does not exist after the change.
//
// A call that names the path or a directory above it comes first, the newest of several. For a path that exists, a tool
// that writes named files comes before a command, and one of several commands is not evidence, because commands also
// name the files that they read. Then comes the only command that can delete and names the base name of a deleted path,
// as in "cd docs && rm a.md". Last comes the only call of the turn that can write anything.
func (e *Evidence) Maker(name string, gone bool) string {
	canMake := func(c *Call) bool {
		if c.Confined && c.Failed {
			return false // it wrote nothing
		}
		return !gone || c.deletes()
	}
	var named, confined []int // the calls that name the path and can have made the change, oldest first
	for _, m := range e.naming(name) {
		if c := &e.Calls[m.call]; canMake(c) {
			named = append(named, m.call)
			if c.Confined {
				confined = append(confined, m.call)
			}
		}
	}
	switch {
	case !gone && len(confined) > 0:
		return e.Calls[confined[len(confined)-1]].ID
	case gone && len(named) > 0, len(named) == 1:
		return e.Calls[named[len(named)-1]].ID
	}
	isCommand := func(c *Call) bool { return !c.Confined }
	if gone {
		if id := e.only(func(c *Call) bool { return isCommand(c) && c.deletes() && containsWord(c.text, path.Base(name)) }); id != "" {
			return id
		}
	}
	return e.only(isCommand)
}

// only returns the id of the only call that fulfills a condition, or "".
func (e *Evidence) only(is func(*Call) bool) (id string) {
	n := 0
	for i := range e.Calls {
		if is(&e.Calls[i]) {
			id, n = e.Calls[i].ID, n+1
		}
	}
	if n != 1 {
		return ""
	}
	return id
}
