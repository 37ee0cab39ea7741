package credential

import (
	"bytes"

	"github.com/dalsegno/segno/agents/profile"
)

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
	for _, l := range f.parts {
		switch {
		case l.Parent != "":
			m.mergeParent(l, own, machine, machineIsNewer)
		case l.Keys == nil:
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
	for _, l := range f.parts {
		if l.Parent == name && name != "" {
			return true
		}
		for _, key := range l.Keys {
			if key == name {
				return true
			}
		}
	}
	return false
}

// mergeGroup merges members that together are one login.
func (m *merged) mergeGroup(l profile.LoginPart, machine document, machineIsNewer bool) {
	own, offered := document{}, document{}
	for _, key := range l.Keys {
		own.copy(key, &m.document)
		offered.copy(key, &machine)
	}
	if !m.wins(l, l.Keys[0], own.value(), offered.value(), machineIsNewer) {
		return
	}
	for _, key := range l.Keys {
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
func (m *merged) mergeParent(l profile.LoginPart, own, machine document, machineIsNewer bool) {
	has, offered := own.find(l.Parent), machine.find(l.Parent)
	if isEmpty(offered) {
		return
	}
	i := machine.index(l.Parent)
	if isEmpty(has) {
		m.set(machine.members[i])
		m.taken = append(m.taken, l.Parent)
		return
	}
	inner, err := object(has)
	from, fromErr := object(offered)
	if err != nil || fromErr != nil {
		return // an agent that writes an unknown form keeps its login
	}
	before := inner.bytes()
	m.mergeEach(l, &inner, l.Parent+"/", from, machineIsNewer)
	if after := inner.bytes(); !bytes.Equal(before, after) {
		m.set(member{name: l.Parent, key: machine.members[i].key, value: after})
	}
}

// mergeEach merges logins that are members of an object.
func (m *merged) mergeEach(l profile.LoginPart, into *document, prefix string, from document, machineIsNewer bool) {
	for _, x := range from.members {
		if m.wins(l, prefix+x.name, into.find(x.name), x.value, machineIsNewer) {
			into.set(x)
		}
	}
}

// wins reports whether the machine's login replaces the agent's.
func (m *merged) wins(l profile.LoginPart, name string, own, machine []byte, machineIsNewer bool) bool {
	switch {
	case isEmpty(machine) || bytes.Equal(own, machine):
		return false
	case isEmpty(own) || expiresLater(l.Expiry, machine, own, machineIsNewer):
		m.taken = append(m.taken, name)
		return true
	}
	m.kept = append(m.kept, name)
	return false
}

// expiresLater reports whether login a expires later than b, or otherwise isNewer.
func expiresLater(places []profile.Expiry, a, b []byte, isNewer bool) bool {
	for _, e := range places {
		x, hasX := readExpiry(e, a)
		y, hasY := readExpiry(e, b)
		if hasX && hasY && x != y {
			return x > y
		}
	}
	return isNewer
}
