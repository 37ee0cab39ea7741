package s3

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// errNoKeys is the error if no keys are configured.
var errNoKeys = errors.New("no keys for the bucket")

// maxCredentials limits what is read of a file with credentials.
const maxCredentials = 1 << 20

// credentials returns the keys for a request.
func (b *Bucket) credentials(ctx context.Context) (Credentials, error) {
	env := b.options.Getenv
	if b.options.Credentials != nil {
		return b.options.Credentials(ctx)
	}
	if c := (Credentials{env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"), env("AWS_SESSION_TOKEN")}); b.profile == "" && c.Key+c.Secret != "" {
		return c, c.check("the environment")
	}
	profile := cmp.Or(b.profile, env("AWS_PROFILE"), "default")
	name := env("AWS_SHARED_CREDENTIALS_FILE")
	if name == "" {
		home := env("HOME")
		if home == "" {
			return Credentials{}, errNoKeys
		}
		name = filepath.Join(home, ".aws", "credentials")
	}
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return Credentials{}, fmt.Errorf("%w: neither in the environment nor in %s", errNoKeys, name)
	}
	if err != nil {
		return Credentials{}, err
	}
	defer f.Close()
	c, found, err := readProfile(io.LimitReader(f, maxCredentials), profile)
	if err == nil && !found {
		err = fmt.Errorf("%w: no profile %.40q", errNoKeys, profile)
	}
	if err == nil {
		err = c.check(fmt.Sprintf("profile %.40q", profile))
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// check returns an error for keys that cannot sign a request.
func (c Credentials) check(where string) error {
	if c.Key == "" || c.Secret == "" {
		return fmt.Errorf("%w: %s has only one half of them", errNoKeys, where)
	}
	for _, text := range []string{c.Key, c.Secret, c.Session} {
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("%w: %s has keys with invalid characters", errNoKeys, where)
		}
	}
	return nil
}

// readProfile reads a section of a file with credentials: [NAME], and lines with NAME = VALUE.
func readProfile(r io.Reader, profile string) (c Credentials, found bool, err error) {
	lines := bufio.NewScanner(r)
	inside := false
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if section, ok := strings.CutPrefix(line, "["); ok {
			section, _, _ = strings.Cut(section, "]")
			inside = strings.TrimSpace(section) == profile
			found = found || inside
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !inside || !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		switch value = strings.TrimSpace(value); strings.ToLower(strings.TrimSpace(name)) {
		case "aws_access_key_id":
			c.Key = value
		case "aws_secret_access_key":
			c.Secret = value
		case "aws_session_token":
			c.Session = value
		}
	}
	return c, found, lines.Err()
}
