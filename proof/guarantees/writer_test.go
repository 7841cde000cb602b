package guarantees_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// writer changes objects that others change as well, and records the answers.
type writer struct {
	w      *world
	id     int
	client *client
	random *rand.Rand
	known  map[string]object

	claims  []writeResult
	refused []string
}

const names = 12

// again is the delay of clients before a retry, so that they do not use all CPU time while the server is down.
const again = 10 * time.Millisecond

func (w *writer) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		resource := resourceNames[w.random.IntN(len(resourceNames))]
		name := fmt.Sprintf("o%d", w.random.IntN(names))
		value := fmt.Sprintf("%d-%d", w.id, n)
		if old := w.known[resource+"/"+name]; old != nil {
			w.change(ctx, resource, old, value)
		} else {
			w.create(ctx, resource, name, value)
		}
	}
}

func (w *writer) create(ctx context.Context, resource, name, value string) {
	o := resources[resource].make()
	o.SetName(name)
	w.mark(o, value)
	if p, ok := o.(*corev1.Pod); ok {
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "image"}}
		p.Spec.NodeName = []string{"", "n0", "n1"}[w.random.IntN(3)]
	}
	made, err := w.client.create(ctx, resource, o)
	w.record(writeResult{verb: "create", resource: resource, name: name, value: value}, made, err)
}

func (w *writer) mark(o object, value string) {
	o.SetAnnotations(map[string]string{valueAnnotation: value})
	o.SetLabels(map[string]string{"group": strconv.Itoa(w.random.IntN(3))})
}

func (w *writer) change(ctx context.Context, resource string, old object, value string) {
	before := revisionOf(old.GetResourceVersion())
	c := writeResult{verb: "update", resource: resource, name: old.GetName(), value: value, before: before}
	if w.random.IntN(4) == 0 {
		c.verb, c.value = "delete", ""
		w.record(c, nil, w.client.delete(ctx, resource, old))
		return
	}
	o, view := old.DeepCopyObject().(object), ""
	w.mark(o, value)
	if p, ok := o.(*corev1.Pod); ok && w.random.IntN(2) == 0 {
		view = "status"
		p.Status.Phase = []corev1.PodPhase{corev1.PodPending, corev1.PodRunning}[w.random.IntN(2)]
	}
	made, err := w.client.update(ctx, resource, view, o)
	w.record(c, made, err)
}

// record records the answer to a write.
func (w *writer) record(c writeResult, made object, err error) {
	key := c.resource + "/" + c.name
	switch {
	case err == nil && made == nil:
		delete(w.known, key)
		w.claims = append(w.claims, c)
	case err == nil:
		w.known[key] = made
		c.after = revisionOf(made.GetResourceVersion())
		w.claims = append(w.claims, c)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		if c.value != "" {
			w.refused = append(w.refused, c.value)
		}
		w.readBack(c.resource, c.name)
	case w.w.isFault(err): // the result is not known
		time.Sleep(again)
		w.readBack(c.resource, c.name)
	default:
		w.w.t.Errorf("Acknowledged: %v is answered with %v", c, err)
	}
}

// readBack reads the current state of an object.
func (w *writer) readBack(resource, name string) {
	delete(w.known, resource+"/"+name)
	if o, err := w.client.get(context.Background(), resource, name); err == nil {
		w.known[resource+"/"+name] = o
	}
}

// isFault reports whether an error is the result of an injected fault.
func (w *world) isFault(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // the connection was cut or refused
	}
	switch status.Status().Code {
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusInternalServerError:
		// client-go returns this too when an answer is cut.
		return apierrors.IsUnexpectedServerError(err)
	}
	return false
}
