package credential

import "bytes"

// merged is the outcome of a merge of two documents.
type merged struct {
	document
	taken []string // the machine's logins that the document has now
	kept  []string // the agent's logins that stayed although the machine's differ
}

// merge returns the agent's document with the machine's logins that expire later, and with those that the
// agent lacks. If two logins cannot be compared, or expire at the same time, merge uses the login of the
// newer file. All other members of the agent's document stay, and merge adds the members that only the
// machine has.
func (f file) merge(own, machine document, machineIsNewer bool) merged {
	m := merged{document: document{members: append([]member(nil), own.members...)}}
	for _, l := range f.logins {
		switch {
		case l.parent != "":
			m.mergeParent(l, own, machine, machineIsNewer)
		case l.keys == nil:
			m.mergeEach(l, &m.document, "", machine, machineIsNewer)
		default:
			m.mergeGroup(l, machine, machineIsNewer)
		}
	}
	for _, x := range machine.members {
		if m.find(x.name) == nil && !f.isLogin(x.name) {
			m.set(x)
		}
	}
	return m
}

// isLogin reports whether a member of the document belongs to a login.
func (f file) isLogin(name string) bool {
	for _, l := range f.logins {
		if l.parent == name && name != "" {
			return true
		}
		for _, key := range l.keys {
			if key == name {
				return true
			}
		}
	}
	return false
}

// mergeGroup merges members that together are one login.
func (m *merged) mergeGroup(l login, machine document, machineIsNewer bool) {
	own, offered := document{}, document{}
	for _, key := range l.keys {
		own.copy(key, &m.document)
		offered.copy(key, &machine)
	}
	if !m.wins(l, l.keys[0], own.value(), offered.value(), machineIsNewer) {
		return
	}
	for _, key := range l.keys {
		m.copy(key, &machine)
	}
}

// value returns a document as JSON, or an empty value if all members are empty.
func (d *document) value() []byte {
	for _, x := range d.members {
		if !isEmpty(x.value) {
			return d.bytes()
		}
	}
	return nil
}

// mergeParent merges the members of an object, each of which is a login.
func (m *merged) mergeParent(l login, own, machine document, machineIsNewer bool) {
	has, offered := own.find(l.parent), machine.find(l.parent)
	if isEmpty(offered) {
		return
	}
	i := machine.index(l.parent)
	if isEmpty(has) {
		m.set(machine.members[i])
		m.taken = append(m.taken, l.parent)
		return
	}
	inner, err := object(has)
	from, fromErr := object(offered)
	if err != nil || fromErr != nil {
		return // an agent that writes an unknown form keeps its login
	}
	before := inner.bytes()
	m.mergeEach(l, &inner, l.parent+"/", from, machineIsNewer)
	if after := inner.bytes(); !bytes.Equal(before, after) {
		m.set(member{name: l.parent, key: machine.members[i].key, value: after})
	}
}

// mergeEach merges logins that are members of an object.
func (m *merged) mergeEach(l login, into *document, prefix string, from document, machineIsNewer bool) {
	for _, x := range from.members {
		if m.wins(l, prefix+x.name, into.find(x.name), x.value, machineIsNewer) {
			into.set(x)
		}
	}
}

// wins reports whether the machine's login replaces the agent's.
func (m *merged) wins(l login, name string, own, machine []byte, machineIsNewer bool) bool {
	switch {
	case isEmpty(machine) || bytes.Equal(own, machine):
		return false
	case isEmpty(own) || l.expiresLater(machine, own, machineIsNewer):
		m.taken = append(m.taken, name)
		return true
	}
	m.kept = append(m.kept, name)
	return false
}

// expiresLater reports whether login a expires later than b, or otherwise isNewer.
func (l login) expiresLater(a, b []byte, isNewer bool) bool {
	for _, e := range l.expiry {
		x, hasX := e.read(a)
		y, hasY := e.read(b)
		if hasX && hasY && x != y {
			return x > y
		}
	}
	return isNewer
}
