package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/server/store"
)

// object is any object of a typed client.
type object interface {
	metav1.Object
	runtime.Object
}

// resources are the kinds that the random test works with.
var resources = map[string]struct {
	make func() object
	list func() runtime.Object
}{
	"configmaps": {func() object { return &corev1.ConfigMap{} }, func() runtime.Object { return &corev1.ConfigMapList{} }},
	"secrets":    {func() object { return &corev1.Secret{} }, func() runtime.Object { return &corev1.SecretList{} }},
	"pods":       {func() object { return &corev1.Pod{} }, func() runtime.Object { return &corev1.PodList{} }},
}

var resourceNames = []string{"configmaps", "pods", "secrets"}

// wires are the ways in which clients may want their answers.
var wires = []func(*rest.Config){
	func(*rest.Config) {},
	func(c *rest.Config) {
		c.ContentType, c.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	},
	func(c *rest.Config) { c.DisableCompression = true },
}

// client is one client with connections of its own.
type client struct {
	rest rest.Interface
}

func newClient(t testing.TB, config *rest.Config, wire int) *client {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Dial = (&net.Dialer{}).DialContext // so that no other client shares its connections
	config.WrapTransport = impatient
	wires[wire%len(wires)](config)
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &client{rest: k.CoreV1().RESTClient()}
}

// impatient hides how long the server wants a client to wait.
func impatient(inner http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := inner.RoundTrip(r)
		if err == nil {
			res.Header.Del("Retry-After")
		}
		return res, err
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (c *client) create(ctx context.Context, resource string, o object) (object, error) {
	out := resources[resource].make()
	return out, c.rest.Post().MaxRetries(0).Namespace("default").Resource(resource).Body(o).Do(ctx).Into(out)
}

func (c *client) get(ctx context.Context, resource, name string) (object, error) {
	out := resources[resource].make()
	return out, c.rest.Get().MaxRetries(0).Namespace("default").Resource(resource).Name(name).Do(ctx).Into(out)
}

func (c *client) update(ctx context.Context, resource, subresource string, o object) (object, error) {
	out := resources[resource].make()
	return out, c.rest.Put().MaxRetries(0).Namespace("default").Resource(resource).Name(o.GetName()).SubResource(subresource).Body(o).Do(ctx).Into(out)
}

func (c *client) delete(ctx context.Context, resource string, o object) error {
	rev, now := o.GetResourceVersion(), int64(0)
	return c.rest.Delete().MaxRetries(0).Namespace("default").Resource(resource).Name(o.GetName()).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{ResourceVersion: &rev}}).Do(ctx).Error()
}

// page is one answer to a list.
type page struct {
	rev   store.Revision
	next  string
	items map[string]version
}

func (c *client) list(ctx context.Context, s selector, o metav1.ListOptions) (page, error) {
	o.LabelSelector, o.FieldSelector = s.labels, s.fields
	list := resources[s.resource].list()
	if err := c.rest.Get().MaxRetries(0).Namespace("default").Resource(s.resource).VersionedParams(&o, scheme.ParameterCodec).Do(ctx).Into(list); err != nil {
		return page{}, err
	}
	l, err := meta.ListAccessor(list)
	if err != nil {
		return page{}, err
	}
	p := page{rev: revisionOf(l.GetResourceVersion()), next: l.GetContinue(), items: map[string]version{}}
	return p, meta.EachListItem(list, func(item runtime.Object) error {
		o := item.(object)
		if o.GetAnnotations()[valued] != "" { // what is there from the start is nobody's business
			p.items[o.GetName()] = version{factOf(o), revisionOf(o.GetResourceVersion())}
		}
		return nil
	})
}

func (c *client) watch(ctx context.Context, s selector, o metav1.ListOptions) (watch.Interface, error) {
	o.LabelSelector, o.FieldSelector, o.Watch = s.labels, s.fields, true
	return c.rest.Get().MaxRetries(0).Namespace("default").Resource(s.resource).VersionedParams(&o, scheme.ParameterCodec).Watch(ctx)
}

func revisionOf(text string) store.Revision {
	rev, err := store.ParseRevision(text)
	if err != nil {
		panic(err)
	}
	return rev
}

// writer changes objects that others change as well, and remembers what it was told.
type writer struct {
	w      *world
	id     int
	client *client
	random *rand.Rand
	known  map[string]object

	claims  []claim
	refused []string
}

const names = 12

// again is how long clients wait before they try again, so that they do not keep everybody busy while the server is away.
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
	w.note(claim{verb: "create", resource: resource, name: name, value: value}, made, err)
}

func (w *writer) mark(o object, value string) {
	o.SetAnnotations(map[string]string{valued: value})
	o.SetLabels(map[string]string{"group": strconv.Itoa(w.random.IntN(3))})
}

func (w *writer) change(ctx context.Context, resource string, old object, value string) {
	before := revisionOf(old.GetResourceVersion())
	c := claim{verb: "update", resource: resource, name: old.GetName(), value: value, before: before}
	if w.random.IntN(4) == 0 {
		c.verb, c.value = "delete", ""
		w.note(c, nil, w.client.delete(ctx, resource, old))
		return
	}
	o, view := old.DeepCopyObject().(object), ""
	w.mark(o, value)
	if p, ok := o.(*corev1.Pod); ok && w.random.IntN(2) == 0 {
		view = "status"
		p.Status.Phase = []corev1.PodPhase{corev1.PodPending, corev1.PodRunning}[w.random.IntN(2)]
	}
	made, err := w.client.update(ctx, resource, view, o)
	w.note(c, made, err)
}

// note remembers what was said about a write.
func (w *writer) note(c claim, made object, err error) {
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
		w.look(c.resource, c.name)
	case w.w.isTrouble(err): // nobody knows what came of it
		time.Sleep(again)
		w.look(c.resource, c.name)
	default:
		w.w.t.Errorf("Acknowledged: %v is answered with %v", c, err)
	}
}

// look finds out what there is.
func (w *writer) look(resource, name string) {
	delete(w.known, resource+"/"+name)
	if o, err := w.client.get(context.Background(), resource, name); err == nil {
		w.known[resource+"/"+name] = o
	}
}

// isTrouble tells what faults come to at a client.
func (w *world) isTrouble(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // the connection was cut, or there was none
	}
	switch status.Status().Code {
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusInternalServerError:
		// client-go says so too when an answer is cut short.
		return apierrors.IsUnexpectedServerError(err)
	}
	return false
}

// follower is one watching client: it lists and watches, and resumes wherever its watches end.
type follower struct {
	w        *world
	id       int
	client   *client
	selector selector
	random   *rand.Rand

	mu        sync.Mutex // guards at
	at        store.Revision
	stretches []*stretch
	expired   int
}

// stretch is what was seen from one list on, over however many watches that resumed each other.
type stretch struct {
	from, to store.Revision
	events   []seen
	watches  int
}

func (f *follower) String() string { return fmt.Sprintf("watcher %d of %v", f.id, f.selector) }

func (f *follower) reached() store.Revision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

func (f *follower) reach(rev store.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = rev
}

func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		s, ok := f.begin(ctx)
		if !ok {
			time.Sleep(again)
			continue
		}
		f.stretches = append(f.stretches, s)
		f.reach(s.to)
		for ctx.Err() == nil && f.resume(ctx, s) {
			time.Sleep(again)
		}
	}
}

// begin lists in one of the ways in which clients do.
func (f *follower) begin(ctx context.Context) (*stretch, bool) {
	var o metav1.ListOptions
	switch f.random.IntN(3) {
	case 0:
		return f.stream(ctx)
	case 1:
		o.ResourceVersion = "0"
	}
	p, err := f.client.list(ctx, f.selector, o)
	if err != nil {
		return nil, false
	}
	f.w.keep(lists{"Filterable", f.selector, p.rev, p.items})
	return &stretch{from: p.rev, to: p.rev}, true
}

// stream gets the state by a watch, up to the bookmark that ends it, and goes on with the same watch.
func (f *follower) stream(ctx context.Context) (*stretch, bool) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	yes := true
	w, err := f.client.watch(ctx, f.selector, metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if err != nil {
		return nil, false
	}
	defer w.Stop()
	items := map[string]version{}
	for e := range w.ResultChan() {
		o, ok := e.Object.(object)
		switch {
		case !ok:
			return nil, false
		case e.Type == watch.Bookmark && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true":
			s := &stretch{from: revisionOf(o.GetResourceVersion())}
			s.to = s.from
			f.w.keep(lists{"Filterable", f.selector, s.from, items})
			f.reach(s.to)
			f.read(w, s)
			return s, true
		case e.Type != watch.Added:
			f.w.t.Errorf("Ordered: %v: %s before the end of the initial events", f, e.Type)
			return nil, false
		case o.GetAnnotations()[valued] != "":
			items[o.GetName()] = version{factOf(o), revisionOf(o.GetResourceVersion())}
		}
	}
	return nil, false
}

// resume follows one more connection. It tells whether the next may go on from there.
func (f *follower) resume(ctx context.Context, s *stretch) bool {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	w, err := f.client.watch(ctx, f.selector, metav1.ListOptions{ResourceVersion: s.to.String(), AllowWatchBookmarks: true})
	if err != nil {
		return !f.gone(err)
	}
	defer w.Stop()
	s.watches++
	return f.read(w, s)
}

func (f *follower) gone(err error) bool {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		f.expired++
		return true
	}
	return false
}

// read takes what comes, for a while. It tells whether another watch may go on from there.
func (f *follower) read(w watch.Interface, s *stretch) bool {
	for left := 1 + f.random.IntN(200); left > 0; left-- {
		e, open := <-w.ResultChan()
		if !open {
			return true
		}
		if status, ok := e.Object.(*metav1.Status); ok {
			return !f.gone(&apierrors.StatusError{ErrStatus: *status})
		}
		o := e.Object.(object)
		rev := revisionOf(o.GetResourceVersion())
		switch {
		case e.Type == watch.Bookmark && rev < s.to:
			f.w.t.Errorf("Bookmarkable: %v: a bookmark at %d after %d", f, rev, s.to)
		case e.Type == watch.Bookmark:
			s.to = rev
		case rev < s.to:
			f.w.t.Errorf("Ordered: %v: %s %s at %d after %d", f, e.Type, o.GetName(), rev, s.to)
		case rev == s.to:
			f.w.t.Errorf("Unique, Bookmarkable: %v: %s %s at %d, which had been reached", f, e.Type, o.GetName(), rev)
		default:
			s.events = append(s.events, seen{e.Type, o.GetName(), factOf(o), rev})
			s.to = rev
		}
		f.reach(s.to)
	}
	return true
}

// judge compares all that was seen with the truth.
func (f *follower) judge(tr *truth) (events int) {
	for _, s := range f.stretches {
		events += len(s.events)
		want := tr.events(f.selector, s.from, s.to)
		for i := range max(len(want), len(s.events)) {
			switch {
			case i >= len(s.events):
				f.w.t.Errorf("Reliable, Resumable: %v missed %v", f, want[i])
			case i >= len(want):
				f.w.t.Errorf("Filterable: %v saw %v too much", f, s.events[i])
			case want[i] != s.events[i]:
				f.w.t.Errorf("Reliable, Filterable: %v saw %v instead of %v", f, s.events[i], want[i])
			default:
				continue
			}
			break
		}
	}
	return events
}
