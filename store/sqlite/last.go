package sqlite

import (
	"github.com/dalsegno/segno/internal/store/ledger"
	driver "modernc.org/sqlite"
)

// lastCommit is the state that the newest commit of a connection left in the database. An agent mostly commits to the
// thread to which it committed before. While nothing else has changed the database, the next commit needs to read nothing.
type lastCommit struct {
	version uint32 // of the database after the commit
	thread  threadRow
	node    node // the head of the thread
}

// result returns the lastCommit for the next commit. It is nil unless the head of the thread is this commit.
func (t *commitTx) result() *lastCommit {
	if t.after == nil || t.after.Head.Head != t.ID || t.Link != nil {
		return nil
	}
	version, ok := t.c.dataVersion()
	if !ok {
		return nil
	}
	return &lastCommit{version: version, thread: *t.after, node: t.at}
}

// recall sets the place of a commit that follows the last commit of the connection, and returns the row of its thread. It
// returns nil if the commit does not follow that one, if it names other records than its parent, or if the database has
// changed since. The store must compare the id of a commit before all else. recall leaves that to insertCommit, because
// a commit that it accepts is not refused for another reason. recall forgets the last commit, because SQLite does not count
// the changes of a transaction before its end, and other commits may follow in this one.
func (t *commitTx) recall() *threadRow {
	last := t.c.last
	t.c.last = nil
	if last == nil || t.Thread != last.thread.Head.Thread || t.Parent != last.thread.Head.Head || t.Move != nil || t.Link != nil ||
		t.Pin != nil || t.Operation != nil || len(ledger.Objects(&t.Commit.Commit)) > 0 || !t.staged.isEmpty() ||
		ledger.AdmitHead(&last.thread.Thread, &t.Commit.Commit) != nil {
		return nil
	}
	if version, ok := t.c.dataVersion(); !ok || version != last.version {
		return nil
	}
	t.number, t.parent = last.node.n+1, last.node
	row := last.thread
	return &row
}

// dataVersion returns a number that SQLite changes at the end of each transaction that changes the database. It includes
// transactions of other connections if this connection has begun a transaction after them. ok is false if the driver has another type.
func (c *conn) dataVersion() (version uint32, ok bool) {
	err := c.sql.Raw(func(raw any) (err error) {
		control, isControl := raw.(driver.FileControl)
		if isControl {
			version, err = control.FileControlDataVersion("main")
			ok = err == nil
		}
		return err
	})
	return version, ok && err == nil
}
