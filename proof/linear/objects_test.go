package linear_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/anishathalye/porcupine"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/randomly"
)

// object is the state of one name. Every write of a value has another value, so two states that are equal are the same
// version.
type object struct {
	exists            bool
	value             string
	held, terminating bool // by a finalizer
}

// objectInput is a request that concerns one name.
type objectInput struct {
	verb   string
	value  string // of a create or an update
	held   bool   // of a create
	expect object // the version that an update replaces
}

type objectOutput struct {
	outcome
	found object // by a get or a list
}

var objectModel = porcupine.Model{
	Init: func() any { return object{} },
	Step: func(state, input, output any) (bool, any) {
		return input.(objectInput).step(state.(object), output.(objectOutput))
	},
}

// step says whether a request can have this answer in a state, and what the state is then. A request that has lost its
// answer does what it can.
func (in objectInput) step(was object, out objectOutput) (bool, object) {
	possible, now := in.answer(was)
	if out.outcome == lost {
		return true, now
	}
	return possible == out.outcome && (in.verb != "get" || out.found == was), now
}

// answer is the only answer to a request in a state, and the state after it.
func (in objectInput) answer(was object) (outcome, object) {
	now := was
	switch {
	case in.verb == "create" && was.exists:
		return exists, was
	case in.verb == "create":
		return ok, object{exists: true, value: in.value, held: in.held}
	case !was.exists:
		return notFound, was
	case in.verb == "update" && was != in.expect:
		return conflict, was
	case in.verb == "update":
		now.value = in.value
	case in.verb == "release":
		now.held = false
	case in.verb == "delete":
		now.terminating = true
	}
	if now.terminating && !now.held {
		return ok, object{}
	}
	return ok, now
}

const manyNames = 3

// TestObjectsAreLinearizable lets clients work on few names.
func TestObjectsAreLinearizable(t *testing.T) {
	seed := randomly.Seed(t)
	w := newWorld(t, seed, "/registry/configmaps/default/")
	ctx, cancel := context.WithTimeout(t.Context(), *duration)
	defer cancel()
	for n := uint64(0); n == 0 || ctx.Err() == nil && !t.Failed(); n++ {
		w.live(ctx, seed+n, func(c *client) { c.useObject(fmt.Sprintf("round%d-", n)) })
		w.check(objectModel)
	}
}

func (c *client) useObject(prefix string) {
	name := fmt.Sprint(prefix, c.random.IntN(manyNames))
	switch c.random.IntN(10) {
	case 0, 1, 2:
		c.create(name)
	case 3:
		c.list(prefix)
	case 4:
		c.update(name)
	case 5, 6:
		c.release(name)
	default:
		c.delete(name)
	}
}

func (c *client) create(name string) {
	in := objectInput{verb: "create", value: c.value(), held: c.random.IntN(3) > 0}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": in.value}}
	if in.held {
		m.Finalizers = []string{"example.org/hold"}
	}
	end := c.begin(in)
	err := request(c.server.client.Post().Namespace("default").Resource("configmaps").Body(m)).Do(c.t.Context()).Error()
	c.end(end, err, name)
}

// end records an operation of which the answer says nothing but whether it has succeeded.
func (c *client) end(end func(any, bool, ...string), err error, name string) {
	how := c.outcomeOf(err)
	end(objectOutput{outcome: how}, how == lost, name)
}

// list is a get of every name of the round.
func (c *client) list(prefix string) {
	end := c.begin(objectInput{verb: "get"})
	var all corev1.ConfigMapList
	if request(c.server.client.Get().Namespace("default").Resource("configmaps")).Do(c.t.Context()).Into(&all) != nil {
		return
	}
	found := map[string]object{}
	for i := range all.Items {
		found[all.Items[i].Name] = stateOf(&all.Items[i])
	}
	for i := range manyNames {
		name := fmt.Sprint(prefix, i)
		if o := found[name]; o.exists {
			end(objectOutput{ok, o}, false, name)
		} else {
			end(objectOutput{notFound, o}, false, name)
		}
	}
}

func stateOf(m *corev1.ConfigMap) object {
	return object{true, m.Data["value"], len(m.Finalizers) > 0, m.DeletionTimestamp != nil}
}

// update reads an object and replaces the version that it has found.
func (c *client) update(name string) {
	end := c.begin(objectInput{verb: "get"})
	var m corev1.ConfigMap
	switch err := request(c.server.client.Get().Namespace("default").Resource("configmaps").Name(name)).Do(c.t.Context()).Into(&m); c.outcomeOf(err) {
	case notFound:
		end(objectOutput{outcome: notFound}, false, name)
		return
	case ok:
		end(objectOutput{ok, stateOf(&m)}, false, name)
	default:
		return
	}
	in := objectInput{verb: "update", value: c.value(), expect: stateOf(&m)}
	m.Data["value"] = in.value
	end = c.begin(in)
	err := request(c.server.client.Put().Namespace("default").Resource("configmaps").Name(name).Body(&m)).Do(c.t.Context()).Error()
	c.end(end, err, name)
}

// release removes the finalizer.
func (c *client) release(name string) {
	end := c.begin(objectInput{verb: "release"})
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	err := request(c.server.client.Patch(types.MergePatchType).Namespace("default").Resource("configmaps").Name(name).Body(patch)).Do(c.t.Context()).Error()
	c.end(end, err, name)
}

func (c *client) delete(name string) {
	end := c.begin(objectInput{verb: "delete"})
	err := request(c.server.client.Delete().Namespace("default").Resource("configmaps").Name(name)).Do(c.t.Context()).Error()
	c.end(end, err, name)
}
