package database

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/dalsegno/segno"
)

// KindPostgres is the kind of a PostgreSQL database.
const KindPostgres = "postgres"

// Postgres connects to PostgreSQL servers. The segno command implements it with a driver.
type Postgres interface {
	// Resolve returns the target of a URL. Environment variables supply the parts that the URL
	// lacks.
	Resolve(url string) (PostgresTarget, error)
	// Connect opens a connection.
	Connect(ctx context.Context, url string) (PostgresConn, error)
}

// PostgresTarget is the target of a URL.
type PostgresTarget struct {
	Hosts    []string // several if the URL has alternatives; one that begins with "/" is the directory of a socket
	Port     uint16
	User     string
	Password string
	Database string
}

// PostgresConn is one connection to a database.
type PostgresConn interface {
	// Exec executes statements and returns the rows of the last one as text. NULL is "".
	Exec(ctx context.Context, sql string) ([][]string, error)
	// CopyTo executes COPY … TO STDOUT.
	CopyTo(ctx context.Context, w io.Writer, sql string) error
	// CopyFrom executes COPY … FROM STDIN.
	CopyFrom(ctx context.Context, r io.Reader, sql string) error
	Close(ctx context.Context) error
}

// maxPostgresBytes is the size on the server above which a database is not saved.
const maxPostgresBytes = 4 << 30

// IsPostgresURL reports whether a text is the URL of a PostgreSQL database.
func IsPostgresURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// NewPostgres returns the attachment of the database at a URL. The error has [segno.KindRefused] if the
// database is neither on this machine nor on one of the allowed hosts. No error contains the password.
func NewPostgres(ctx context.Context, pg Postgres, text string, allowed []string) (Attachment, error) {
	const op = "attach database"
	if pg == nil {
		return Attachment{}, segno.Errorf(segno.KindInvalid, op, "", "this program has no driver of PostgreSQL").WithHint("use the command segno")
	}
	target, err := pg.Resolve(text)
	if err != nil || target.Database == "" || len(target.Hosts) == 0 {
		return Attachment{}, segno.Errorf(segno.KindInvalid, op, "", "the URL of the database is malformed").
			WithHint("give a URL like postgres://localhost/dev")
	}
	at := Attachment{Name: target.name(), Kind: KindPostgres, URL: target.url(text)}
	if len(target.Hosts) > 1 {
		return at, segno.Errorf(segno.KindInvalid, op, at.Name, "the URL names more than one server").WithHint("name one server")
	}
	if host := target.Hosts[0]; !isLoopback(host) && !containsFold(allowed, host) {
		return at, segno.Errorf(segno.KindRefused, op, at.Name, "the server %s is not on this machine", host).
			WithHint("if it is a development database, allow it with SEGNO_DATABASE_HOSTS=" + host)
	}
	s := postgresSession{pg: pg, at: at}
	defer s.close(ctx)
	if _, err := s.open(ctx, ""); err != nil {
		return at, segno.NewError(segno.KindIO, op, at.Name, oneLine(err)).WithHint("check that the server runs, and the name of the database")
	}
	if err := s.checkSupported(ctx); err != nil {
		return at, segno.NewError(segno.KindInvalid, op, at.Name, err)
	}
	if _, err := findPgDump(); err != nil {
		return at, segno.NewError(segno.KindInvalid, op, at.Name, err).WithHint(pgDumpHint)
	}
	return at, nil
}

// PostgresName returns the name of the attachment of a URL, or "" if the URL is malformed.
func PostgresName(pg Postgres, text string) string {
	if pg == nil {
		return ""
	}
	target, err := pg.Resolve(text)
	if err != nil || len(target.Hosts) == 0 {
		return ""
	}
	return target.name()
}

// oneLine removes the line breaks from an error. The driver writes one before each address that it tried.
func oneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }

// name returns the name of a database in checkpoints and messages, which has neither the user nor
// the password.
func (t PostgresTarget) name() string {
	u := url.URL{Scheme: "postgres", Host: t.Hosts[0], Path: "/" + t.Database}
	if strings.HasPrefix(u.Host, "/") {
		u.Host = "" // the directory of a socket
	} else if strings.Contains(u.Host, ":") {
		u.Host = "[" + u.Host + "]"
	}
	if t.Port != 5432 {
		u.Host += fmt.Sprint(":", t.Port)
	}
	return u.String()
}

// url returns a URL that has the same target in any environment. It does not add a password that the text lacks.
func (t PostgresTarget) url(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	q := u.Query()
	for _, name := range []string{"dbname", "database", "user"} {
		q.Del(name)
	}
	q.Set("host", t.Hosts[0])
	q.Set("port", fmt.Sprint(t.Port))
	if password, ok := u.User.Password(); ok {
		u.User = url.UserPassword(t.User, password)
	} else {
		u.User = url.User(t.User)
	}
	u.Host, u.Path, u.RawPath, u.RawQuery = "", "/"+t.Database, "", q.Encode()
	return u.String()
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasPrefix(host, "/") || ip != nil && ip.IsLoopback()
}

func containsFold(all []string, text string) bool {
	for _, s := range all {
		if strings.EqualFold(strings.TrimSpace(s), text) {
			return true
		}
	}
	return false
}

// withDatabase returns the URL text with another database name.
func withDatabase(text, name string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", segno.Errorf(segno.KindInvalid, "read database", "", "the URL of the database is malformed")
	}
	u.Path, u.RawPath = "/"+name, ""
	return u.String(), nil
}

// inFork returns the attachment for the copy of a PostgreSQL database in the fork at root.
func (a Attachment) inFork(root string) Attachment {
	u, err := url.Parse(a.URL)
	if err != nil {
		return a
	}
	suffix := "_" + strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(filepath.Base(root)), "_"), "_")
	base := strings.TrimPrefix(u.Path, "/")
	const most = 63 // bytes of a name
	if len(suffix) > most/2 {
		suffix = suffix[:most/2]
	}
	base = strings.ToValidUTF8(base[:min(len(base), most-len(suffix))], "")
	if text, err := withDatabase(a.URL, base+suffix); err == nil {
		a.URL = text
	}
	return a
}

// label returns the text for an attachment in messages: the file, or the URL without its password.
func (a Attachment) label(root string, pg Postgres) string {
	if a.Kind != KindPostgres {
		return a.File(root)
	}
	if pg != nil {
		if target, err := pg.Resolve(a.URL); err == nil && len(target.Hosts) > 0 {
			return target.name()
		}
	}
	return a.Name
}
