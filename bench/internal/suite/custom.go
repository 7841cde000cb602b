package suite

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/bench/internal/h2"
	"github.com/millrace/millrace/bench/internal/objects"
	"github.com/millrace/millrace/bench/internal/proc"
	"golang.org/x/net/http2/hpack"
)

const (
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	// definitionSize is the size of a large operator's definition in JSON, thingSize that of an object.
	definitionSize = 40 << 10
	thingSize      = 700 // and 300 for its metadata
	// A thing has more fields than a config map, and so more managed fields: a config map with this text is as large as
	// a thing, as both are served.
	configMapSize = thingSize + 408
)

// Numbers of the fixtures' definitions. The numbers of the first one are also those of the things.
const (
	fewDefinitions  = 100
	manyDefinitions = 2000
	documented      = 500
	things          = 10_000
)

func customCases() []Case {
	small := objects.ConfigMap(configMapSize, 0)
	thing := objects.Thing(0, thingSize)
	objectCase := func(name string, run runFunc) Case {
		return Case{Name: "custom/" + name, Op: "object", Fixture: "custom", Prepare: oneDefinition, Run: run}
	}
	applies := func(path string, t objects.Template) runFunc {
		return func(ctx context.Context, b *Bench) error { return appliesOf(ctx, b, path, t) }
	}
	return []Case{
		objectCase("create", creates(objects.Things(0), sendJSON, thing)),
		objectCase("create/configmap", creates(configMaps, sendJSON, small)),
		objectCase("get", getsOf(objects.Things(0), thing)),
		objectCase("get/configmap", getsOf(configMaps, small)),
		objectCase("patch", patchesOf(objects.Things(0), thing, objects.ThingPatch())),
		objectCase("patch/configmap", patchesOf(configMaps, small, objects.Patch())),
		objectCase("apply", applies(objects.Things(0), thing)),
		objectCase("apply/configmap", applies(configMaps, small)),
		{Name: "custom/first-object", Op: "definition", Fixture: "custom", Prepare: oneDefinition, Run: firstObjects},
		{Name: "custom/list/10000", Op: "list", Fixture: "custom-list", Prepare: someThings, Run: listsOf(objects.Things(0))},
		{Name: "custom/list/10000/configmap", Op: "list", Fixture: "custom-list", Prepare: someThings, Run: listsOf(configMaps)},
		{Name: "custom/fanout/1000", Op: "delivery", Fixture: "custom", Prepare: oneDefinition, Run: fanOut{watchers: 1000, size: thingSize, custom: true}.run},
		{Name: "custom/fanout/1000/configmap", Op: "delivery", Fixture: "custom", Prepare: oneDefinition, Run: fanOut{watchers: 1000, size: configMapSize}.run},
		{Name: "custom/memory/10000", Op: "fixture", Fixture: "custom-objects", Fresh: true, MostRounds: 1, Run: memoryOf(0, things)},
		{Name: "custom/memory/100-definitions", Op: "fixture", Fixture: "custom-few", Fresh: true, MostRounds: 1, Run: memoryOf(fewDefinitions, 0)},
		{Name: "custom/openapi/500", Op: "document", Fixture: "custom-documents", Prepare: someDefinitions(documented, 1), MostRounds: 2, Run: openAPI},
		{Name: "custom/discovery/400", Op: "discovery", Fixture: "custom-groups", Prepare: someDefinitions(400, objects.InGroup), MostRounds: 1, Run: discovery},
		{Name: "custom/restart/2000", Op: "start", Fixture: "custom-many", Prepare: someDefinitions(manyDefinitions, 1), MostRounds: 1, Run: restart},
	}
}

// define creates a definition and waits until it is established.
func define(ctx context.Context, c *h2.Conn, n int) error {
	if _, err := c.Expect(ctx, h2.Request{Method: http.MethodPost, Path: definitions, Header: sendJSON, Body: objects.Definition(n, definitionSize)}); err != nil {
		return err
	}
	name := fmt.Sprintf("/things%d.%s", n, objects.Group(n))
	for {
		text, err := c.Expect(ctx, h2.Request{Method: http.MethodGet, Path: definitions + name, Header: acceptJSON})
		if err != nil {
			return err
		}
		if established(text) {
			return nil
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// established searches for the condition. The order of its members differs between servers.
func established(text []byte) bool {
	_, rest, _ := bytes.Cut(text, []byte(`"conditions":[`))
	all, _, _ := bytes.Cut(rest, []byte(`]`))
	for c := range bytes.SplitSeq(all, []byte(`}`)) {
		if bytes.Contains(c, []byte(`"type":"Established"`)) && bytes.Contains(c, []byte(`"status":"True"`)) {
			return true
		}
	}
	return false
}

// createFirst creates an object as soon as the server accepts it. kube-apiserver serves a resource some time after the
// definition is Established.
func createFirst(ctx context.Context, c *h2.Conn, n int) error {
	r := h2.Request{Method: http.MethodPost, Path: objects.Things(n), Header: sendJSON, Body: objects.Thing(n, thingSize).With(objects.Fill{Name: objects.Name('f', 0)})}
	for {
		a, err := c.Do(ctx, r)
		switch {
		case err != nil:
			return err
		case a.Status == http.StatusCreated:
			return nil
		case a.Status != http.StatusNotFound && a.Status != http.StatusTooManyRequests && a.Status != http.StatusServiceUnavailable:
			return fmt.Errorf("the first object: %d %.300s", a.Status, a.Body)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

func oneDefinition(ctx context.Context, b *Bench) error {
	c, err := b.Server.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := define(ctx, c, 0); err != nil {
		return err
	}
	return createFirst(ctx, c, 0)
}

// someDefinitions creates definitions. The difference between their numbers is apart.
func someDefinitions(n, apart int) runFunc {
	return func(ctx context.Context, b *Bench) error {
		return b.each(ctx, n, func(ctx context.Context, c *h2.Conn, i int) error { return define(ctx, c, i*apart) })
	}
}

func makeThings(ctx context.Context, b *Bench, path string, t objects.Template, n int) error {
	return b.each(ctx, n, func(ctx context.Context, c *h2.Conn, i int) error {
		_, err := c.Size(ctx, h2.Request{Method: http.MethodPost, Path: path, Header: sendJSON, Body: t.With(objects.Fill{Name: objects.Name('p', i)})})
		return err
	})
}

func someThings(ctx context.Context, b *Bench) error {
	if err := oneDefinition(ctx, b); err != nil {
		return err
	}
	if err := makeThings(ctx, b, objects.Things(0), objects.Thing(0, thingSize), things-1); err != nil {
		return err
	}
	return makeThings(ctx, b, configMaps, objects.ConfigMap(configMapSize, 0), things)
}

// firstObjects creates one definition after the other, and waits for the first object of each.
func firstObjects(ctx context.Context, b *Bench) error {
	return b.loop(ctx, 1, func(ctx context.Context, t iteration) error {
		n := 10_000 + t.id()
		if err := define(ctx, t.conn, n); err != nil {
			return err
		}
		return createFirst(ctx, t.conn, n)
	})
}

func getsOf(path string, t objects.Template) runFunc {
	return func(ctx context.Context, b *Bench) error {
		names, _, err := b.createOwn(ctx, path, t)
		if err != nil {
			return err
		}
		return b.loop(ctx, workers, func(ctx context.Context, t iteration) error {
			_, err := t.conn.Size(ctx, h2.Request{Method: http.MethodGet, Path: path + "/" + names[t.worker], Header: acceptJSON})
			return err
		})
	}
}

func patchesOf(path string, t, patch objects.Template) runFunc {
	return func(ctx context.Context, b *Bench) error {
		names, _, err := b.createOwn(ctx, path, t)
		if err != nil {
			return err
		}
		return b.loop(ctx, workers, func(ctx context.Context, t iteration) error {
			_, err := t.conn.Size(ctx, h2.Request{Method: http.MethodPatch, Path: path + "/" + names[t.worker], Header: sendMerge, Body: patch.With(objects.Fill{Seq: t.n + 1})})
			return err
		})
	}
}

func appliesOf(ctx context.Context, b *Bench, path string, t objects.Template) error {
	first := iteration{}.id()
	return b.loop(ctx, workers, func(ctx context.Context, u iteration) error {
		name := objects.Name('a', first*workers+u.worker)
		_, err := u.conn.Size(ctx, h2.Request{Method: http.MethodPatch, Path: path + "/" + name + "?fieldManager=bench&force=true", Header: sendApply,
			Body: t.With(objects.Fill{Name: name, Seq: u.n})})
		return err
	})
}

func listsOf(path string) runFunc {
	return func(ctx context.Context, b *Bench) error {
		return b.loop(ctx, 1, func(ctx context.Context, t iteration) error {
			_, err := t.conn.Size(ctx, h2.Request{Method: http.MethodGet, Path: path, Header: acceptJSON})
			return err
		})
	}
}

// idleFor is how long nothing is requested before memory is measured: servers put away what is not in use.
const idleFor = 40 * time.Second

// idleMemory is the memory of a server that has been idle for a while.
func idleMemory(ctx context.Context, b *Bench) (proc.Memory, error) {
	if b.Settle > 0 {
		if err := pause(ctx, idleFor); err != nil {
			return proc.Memory{}, err
		}
	}
	if err := b.collect(ctx); err != nil {
		return proc.Memory{}, err
	}
	return b.Server.Memory()
}

// memoryOf measures the memory that unused definitions, and objects, add to a server that has had one of each.
func memoryOf(idle, objs int) runFunc {
	return func(ctx context.Context, b *Bench) error {
		if err := oneDefinition(ctx, b); err != nil {
			return err
		}
		before, err := idleMemory(ctx, b)
		if err != nil {
			return err
		}
		if err := b.Begin(ctx); err != nil {
			return err
		}
		if err := b.each(ctx, idle, func(ctx context.Context, c *h2.Conn, i int) error { return define(ctx, c, 1+i) }); err != nil {
			return err
		}
		if err := makeThings(ctx, b, objects.Things(0), objects.Thing(0, thingSize), objs); err != nil {
			return err
		}
		if err := b.End(idle + objs); err != nil {
			return err
		}
		after, err := idleMemory(ctx, b)
		if err != nil {
			return err
		}
		b.Own("anonymous, MiB more", mebibytes(after.Anon-before.Anon))
		b.Own("anonymous, KiB for each", float64(after.Anon-before.Anon)/1024/float64(idle+objs))
		return nil
	}
}

var acceptV2 = fields("accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "user-agent", agent)

// openAPI changes a definition and reads the OpenAPI document until it has the change.
func openAPI(ctx context.Context, b *Bench) error {
	return b.loop(ctx, 1, func(ctx context.Context, t iteration) error {
		mark := fmt.Sprintf("changed-%d", t.id())
		patch := fmt.Appendf(nil, `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/description","value":%q}]`, mark)
		name := fmt.Sprintf("/things%d.%s", 1, objects.Group(1))
		sendPatch := fields("accept", jsonType, "content-type", "application/json-patch+json", "user-agent", agent)
		if _, err := t.conn.Expect(ctx, h2.Request{Method: http.MethodPatch, Path: definitions + name, Header: sendPatch, Body: patch}); err != nil {
			return err
		}
		for {
			text, err := t.conn.Expect(ctx, h2.Request{Method: http.MethodGet, Path: "/openapi/v2", Header: acceptV2})
			if err != nil || bytes.Contains(text, []byte(mark)) {
				return err
			}
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	})
}

var acceptAggregated = []hpack.HeaderField{
	{Name: "accept", Value: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}, {Name: "user-agent", Value: agent},
}

// discovery sends the requests with which kubectl discovers a server.
func discovery(ctx context.Context, b *Bench) error {
	return b.loop(ctx, 1, func(ctx context.Context, t iteration) error {
		for _, path := range []string{"/api", "/apis"} {
			if _, err := t.conn.Size(ctx, h2.Request{Method: http.MethodGet, Path: path, Header: acceptAggregated}); err != nil {
				return err
			}
		}
		return nil
	})
}

// restart kills a server, and measures the time until it is ready again and its memory then.
func restart(ctx context.Context, b *Bench) error {
	if err := b.Server.Restart(ctx, false); err != nil {
		return err
	}
	if err := start(ctx, b); err != nil {
		return err
	}
	m, err := idleMemory(ctx, b)
	b.Own("at rest, MiB", mebibytes(m.RSS()))
	return err
}
