package linear_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/randomly"
)

// space is the state of a namespace. Between its deletion and its next creation it is not active: it is emptied and
// goes, at a time that no client knows.
type space struct {
	active  bool
	secrets string // their names in order, with commas between them
}

type spaceInput struct{ verb, secret string }

type spaceOutput struct {
	outcome
	secrets string // as in space
}

var spaceModel = porcupine.Model{
	Init: func() any { return space{} },
	Step: func(state, input, output any) (bool, any) {
		return input.(spaceInput).step(state.(space), output.(spaceOutput))
	},
}

// step says whether a request can have this answer in a state, and what the state is then. A request that has lost its
// answer does what it can, or comes after all others.
func (in spaceInput) step(was space, out spaceOutput) (bool, space) {
	switch in.verb {
	case "create namespace":
		if out.outcome == exists || out.outcome == lost && was.active {
			return true, was // a namespace that is being deleted exists, too
		}
		return !was.active, space{active: true} // nothing of the earlier namespace is left
	case "delete namespace":
		switch out.outcome {
		case notFound:
			return !was.active, was
		case conflict:
			return true, was
		}
		return true, space{secrets: was.secrets}
	case "create secret":
		if out.outcome == lost && !was.active {
			return true, was
		}
		if out.outcome == ok || out.outcome == lost {
			return was.active, space{active: was.active, secrets: join(append(was.names(), in.secret))}
		}
		return !was.active, was
	}
	if was.active {
		return out.secrets == was.secrets, was
	}
	for _, name := range (space{secrets: out.secrets}).names() {
		if !slices.Contains(was.names(), name) {
			return false, was
		}
	}
	return true, was
}

func join(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ",")
}

func (s space) names() []string {
	if s.secrets == "" {
		return nil
	}
	return strings.Split(s.secrets, ",")
}

const manySpaces = 2

// TestNothingOutlivesItsNamespace lets clients create and delete namespaces, and secrets in them.
func TestNothingOutlivesItsNamespace(t *testing.T) {
	seed := randomly.Seed(t)
	w := newWorld(t, seed, "/registry/secrets/", "namespace-controller")
	ctx, cancel := context.WithTimeout(t.Context(), *duration)
	defer cancel()
	for n := uint64(0); n == 0 || ctx.Err() == nil && !t.Failed(); n++ {
		prefix := fmt.Sprintf("round%d-", n)
		w.live(ctx, seed+n, func(c *client) { c.useSpace(fmt.Sprint(prefix, c.random.IntN(manySpaces))) })
		for i := range manySpaces {
			w.settle(fmt.Sprint(prefix, i))
		}
		w.check(spaceModel)
	}
}

func (c *client) useSpace(name string) {
	switch n := c.random.IntN(12); {
	case n == 0:
		end := c.begin(spaceInput{verb: "delete namespace"})
		c.endSpace(end, request(c.server.client.Delete().Resource("namespaces").Name(name)).Do(c.t.Context()).Error(), name)
	case n < 4:
		c.createSpace(name)
	case n < 9:
		in := spaceInput{"create secret", "s" + c.value()}
		end := c.begin(in)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: in.secret}}
		c.endSpace(end, request(c.server.client.Post().Namespace(name).Resource("secrets").Body(secret)).Do(c.t.Context()).Error(), name)
	default:
		c.listSpace(name)
	}
}

func (c *client) createSpace(name string) outcome {
	end := c.begin(spaceInput{verb: "create namespace"})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := request(c.server.client.Post().Resource("namespaces").Body(ns)).Do(c.t.Context()).Error()
	c.endSpace(end, err, name)
	return c.outcomeOf(err)
}

func (c *client) endSpace(end func(any, bool, ...string), err error, name string) {
	how := c.outcomeOf(err)
	end(spaceOutput{outcome: how}, how == lost, name)
}

func (c *client) listSpace(name string) {
	end := c.begin(spaceInput{verb: "list"})
	var all corev1.SecretList
	if request(c.server.client.Get().Namespace(name).Resource("secrets")).Do(c.t.Context()).Into(&all) != nil {
		return
	}
	var names []string
	for i := range all.Items {
		names = append(names, all.Items[i].Name)
	}
	end(spaceOutput{ok, join(names)}, false, name)
}

// settle deletes a namespace, creates it again as soon as it is gone, and looks what is in it.
func (w *world) settle(name string) {
	w.t.Helper()
	c := &client{world: w, id: manyClients, server: w.servers[1].now.Load()}
	end := c.begin(spaceInput{verb: "delete namespace"})
	c.endSpace(end, request(c.server.client.Delete().Resource("namespaces").Name(name)).Do(w.t.Context()).Error(), name)
	for deadline := time.Now().Add(time.Minute); c.createSpace(name) != ok; {
		if time.Now().After(deadline) {
			w.t.Fatalf("namespace %s does not go", name)
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.listSpace(name)
}
