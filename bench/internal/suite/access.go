package suite

import (
	"context"
	"net/http"
	"strings"

	"golang.org/x/net/http2/hpack"

	"github.com/millrace/millrace/bench/internal/h2"
	"github.com/millrace/millrace/bench/internal/objects"
)

func accessCases() []Case {
	return []Case{
		{Name: "access/get", Op: "config map", Fixture: "access", Prepare: twoUsers, Run: quietGets(flood{})},
		{Name: "access/get/beside-1000-gets", Op: "config map", Fixture: "access", Prepare: twoUsers, Run: quietGets(flood{of: oneGet})},
		{Name: "access/get/beside-1000-lists", Op: "config map", Fixture: "access", Prepare: twoUsers, Run: quietGets(flood{of: oneList})},
		{Name: "access/get/beside-1000-lists-elsewhere", Op: "config map", Fixture: "access", Prepare: twoUsers, Run: quietGets(flood{oneList, true})},
		{Name: "access/get/audited", Op: "config map", Fixture: "access-audited", Audit: "blocking", Prepare: twoUsers, Run: auditedGets},
		{Name: "access/get/audited-in-batches", Op: "config map", Fixture: "access-batches", Audit: "batch", Prepare: twoUsers, Run: auditedGets},
		{Name: "access/get/audited-in-batches-when-done", Op: "config map", Fixture: "access-brief", Audit: "batch", Brief: true, Prepare: twoUsers, Run: auditedGets},
	}
}

const access = "/apis/rbac.authorization.k8s.io/v1/"

// twoUsers lets two users read config maps, and creates some.
func twoUsers(ctx context.Context, b *Bench) error {
	c, err := b.Server.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for kind, body := range map[string]string{
		"clusterroles": `{"metadata":{"name":"bench"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list"]}]}`,
		"clusterrolebindings": `{"metadata":{"name":"bench"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"bench"},
			"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"quiet"},{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"flood"}]}`,
	} {
		_, err := c.Expect(ctx, h2.Request{Method: http.MethodPost, Path: access + kind, Header: sendJSON, Body: []byte(body)})
		if unlessThere(err) != nil {
			return err
		}
	}
	t := objects.ConfigMap(storedSmall, 1)
	return b.each(ctx, flooded, func(ctx context.Context, c *h2.Conn, i int) error {
		_, err := c.Expect(ctx, h2.Request{Method: http.MethodPost, Path: configMaps, Header: sendJSON, Body: t.With(objects.Fill{Name: objects.Name('q', i)})})
		return unlessThere(err)
	})
}

// unlessThere forgets an error that says that the object exists.
func unlessThere(err error) error {
	if err != nil && strings.Contains(err.Error(), "already exists") {
		return nil
	}
	return err
}

func as(user string) []hpack.HeaderField {
	return append(fields("impersonate-user", user), acceptJSON...)
}

// flood is what another user does at the same time; the empty one is nothing.
type flood struct {
	of string // the path of the requests that are kept in flight
	// elsewhere sends them to another server of the same machine: how long gets take then is what the machine leaves,
	// whatever a server does.
	elsewhere bool
}

// quietGets measures the gets of one user, one after the other, beside a flood.
func quietGets(beside flood) runFunc {
	return func(ctx context.Context, b *Bench) error {
		flooded := b.Server
		if beside.elsewhere {
			other, err := b.Server.Unaudited(ctx)
			if err != nil {
				return err
			}
			defer other.Stop()
			if err := twoUsers(ctx, &Bench{Scale: b.Scale, Server: other}); err != nil {
				return err
			}
			flooded = other
		}
		if beside.of != "" {
			stop, err := startFlood(ctx, flooded, beside.of)
			if err != nil {
				return err
			}
			defer func() { b.Own("answers to the flood, a second", stop()) }()
		}
		get := h2.Request{Method: http.MethodGet, Path: configMaps + "/" + objects.Name('q', 0), Header: as("quiet")}
		return b.loop(ctx, 1, func(ctx context.Context, t iteration) error {
			_, err := t.conn.Expect(ctx, get)
			return err
		})
	}
}
