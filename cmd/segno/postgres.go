package main

import (
	"context"
	"io"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dalsegno/segno/internal/database"
)

// postgresDriver connects to development databases: [database.Postgres].
type postgresDriver struct{}

func (postgresDriver) Resolve(url string) (database.PostgresTarget, error) {
	c, err := pgconn.ParseConfig(url)
	if err != nil {
		return database.PostgresTarget{}, err
	}
	hosts := []string{c.Host}
	for _, f := range c.Fallbacks {
		if !slices.Contains(hosts, f.Host) {
			hosts = append(hosts, f.Host)
		}
	}
	return database.PostgresTarget{Hosts: hosts, Port: c.Port, User: c.User, Password: c.Password, Database: c.Database}, nil
}

func (postgresDriver) Connect(ctx context.Context, url string) (database.PostgresConn, error) {
	c, err := pgconn.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	return postgresConn{c}, nil
}

// postgresConn is a connection of the driver: [database.PostgresConn].
type postgresConn struct{ *pgconn.PgConn }

func (c postgresConn) Exec(ctx context.Context, sql string) (rows [][]string, err error) {
	results, err := c.PgConn.Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 {
		return nil, err
	}
	for _, values := range results[len(results)-1].Rows {
		row := make([]string, len(values))
		for i, v := range values {
			row[i] = string(v)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (c postgresConn) CopyTo(ctx context.Context, w io.Writer, sql string) error {
	_, err := c.PgConn.CopyTo(ctx, w, sql)
	return err
}

func (c postgresConn) CopyFrom(ctx context.Context, r io.Reader, sql string) error {
	_, err := c.PgConn.CopyFrom(ctx, r, sql)
	return err
}
