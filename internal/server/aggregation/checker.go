package aggregation

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/follow"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/services"
)

const (
	// checkEvery is how often a server that answers is asked again.
	checkEvery = 30 * time.Second
	// One that does not is asked again after the first time, and then after twice as long, up to the second.
	firstRetry, lastRetry = 5 * time.Second, 30 * time.Second
	// checkTimeout is how long one question may take.
	checkTimeout = 5 * time.Second
	// mostDiscovery bounds what a server may say of itself.
	mostDiscovery = 3 << 20
)

// checker looks after the availability of one remote. Its goroutine is waited for by the aggregator.
type checker struct {
	connections *connections
	stop        context.CancelFunc
}

func (a *Aggregator) startChecker(ctx context.Context, r *remote) *checker {
	ctx, stop := context.WithCancel(ctx)
	a.running.Go(func() { a.keepChecking(ctx, r.service.DeepCopy(), r.connections) })
	return &checker{connections: r.connections, stop: stop}
}

// keepChecking asks again from time to time, and whenever the service or its endpoints change.
func (a *Aggregator) keepChecking(ctx context.Context, s *v1.APIService, c *connections) {
	retry := firstRetry
	changes := a.changesOf(s.Spec.Service)
	defer changes.stream.Close()
	for ctx.Err() == nil {
		next := checkEvery
		changes.begin(ctx)
		condition := a.check(ctx, s, c)
		if ctx.Err() == nil {
			if err := a.report(ctx, s.Name, condition); err != nil && !apierrors.IsNotFound(err) {
				a.log.Warn("the status of an API service could not be written", "name", s.Name, "error", err)
				condition.Status = v1.ConditionUnknown
			}
		}
		if condition.Status == v1.ConditionTrue {
			retry = firstRetry
		} else {
			next, retry = retry, min(2*retry, lastRetry)
		}
		c.described.forgetUnused()
		changes.wait(ctx, next)
	}
}

// changesOf follows what a check depends on. What is served of it now is followed.
func (a *Aggregator) changesOf(ref *v1.ServiceReference) *changes {
	c := &changes{}
	c.stream = follow.NewStream(follow.StreamOptions{
		Registry: a.o.Registry, Kinds: a.known(serviceResource, sliceResource), Freshness: registry.Freshness{Any: true},
		Select: func(k *resource.Kind) registry.Selection {
			if k.GroupResource() == sliceResource {
				return slicesQuery(k, ref)
			}
			return registry.Select(k.Faces[0], ref.Namespace, ref.Name, nil, nil)
		},
		Begin: func() { c.seen = true },
		Receive: func(context.Context, *resource.Kind, registry.Event) error {
			c.seen = true
			return nil
		},
	})
	return c
}

// known are those resources that this server serves.
func (a *Aggregator) known(of ...schema.GroupResource) []schema.GroupResource {
	return slices.DeleteFunc(of, func(gr schema.GroupResource) bool {
		_, ok := a.o.Registry.Catalogue.Kind(gr)
		return !ok
	})
}

// changes says when a check may have another result.
type changes struct {
	stream *follow.Stream
	seen   bool
}

// begin notes that what there is now is checked. If it cannot be followed, the check is repeated in time.
func (c *changes) begin(ctx context.Context) {
	_ = c.stream.CatchUp(ctx)
	c.seen = false
}

// wait returns when something has changed, or after some time.
func (c *changes) wait(ctx context.Context, most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	for !c.seen {
		var wakes [2]<-chan struct{} // a nil channel is never closed
		copy(wakes[:], c.stream.Wakes())
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			return
		case <-wakes[0]:
		case <-wakes[1]:
		}
		if c.stream.CatchUp(ctx) != nil {
			return
		}
	}
}

func condition(status v1.ConditionStatus, reason, format string, args ...any) v1.APIServiceCondition {
	return v1.APIServiceCondition{Type: v1.Available, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// check is the condition of an APIService right now.
func (a *Aggregator) check(ctx context.Context, s *v1.APIService, c *connections) v1.APIServiceCondition {
	ref := s.Spec.Service
	service, err := a.service(ctx, ref)
	switch {
	case apierrors.IsNotFound(err):
		return condition(v1.ConditionFalse, "ServiceNotFound", "service/%s in %q is not present", ref.Name, ref.Namespace)
	case err != nil:
		return condition(v1.ConditionUnknown, "ServiceAccessError", "service/%s in %q cannot be checked due to: %v", ref.Name, ref.Namespace, err)
	}
	if service.Spec.Type == corev1.ServiceTypeClusterIP {
		if found := a.checkEndpoints(ctx, service, ref); found != nil {
			return *found
		}
	}
	if err := a.discover(ctx, s, c); err != nil {
		return condition(v1.ConditionFalse, "FailedDiscoveryCheck", "%v", err)
	}
	return condition(v1.ConditionTrue, "Passed", "all checks passed")
}

func (a *Aggregator) checkEndpoints(ctx context.Context, service *corev1.Service, ref *v1.ServiceReference) *v1.APIServiceCondition {
	port, listens := services.PortName(service, *ref.Port)
	if !listens {
		return new(condition(v1.ConditionFalse, "ServicePortError", "service/%s in %q is not listening on port %d", ref.Name, ref.Namespace, *ref.Port))
	}
	all, err := a.slices(ctx, ref)
	switch {
	case err != nil:
		return new(condition(v1.ConditionUnknown, "EndpointsAccessError", "service/%s in %q cannot be checked due to: %v", ref.Name, ref.Namespace, err))
	case len(all) == 0:
		return new(condition(v1.ConditionFalse, "EndpointsNotFound", "cannot find endpointslices for service/%s in %q", ref.Name, ref.Namespace))
	case !slices.ContainsFunc(all, func(s *discoveryv1.EndpointSlice) bool { return len(services.Ready(s, port)) > 0 }):
		return new(condition(v1.ConditionFalse, "MissingEndpoints", "endpointslices for service/%s in %q have no addresses with port name %q", ref.Name, ref.Namespace, port))
	}
	return nil
}

// checker's identity: it may see everything, so that what it is told does not depend on anybody's permissions.
var itself = auth.User{Name: "system:kube-aggregator", Groups: []string{auth.Masters}}

// discover asks a server what it serves: that it answers is the check, and what it answers is shown to clients.
func (a *Aggregator) discover(ctx context.Context, s *v1.APIService, c *connections) error {
	if c.err != nil {
		return c.err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	at := address(s, discoveryPath(s))
	answer, err := a.get(ctx, s, c, discoveryPath(s))
	if err != nil {
		c.shared.CloseIdleConnections()
		return fmt.Errorf("failing or missing response from %v: %w", at, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("failing or missing response from %v: bad status from %v: %d", at, at, answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostDiscovery))
	if err != nil {
		return fmt.Errorf("failing or missing response from %v: %w", at, err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(text, &list); err != nil {
		a.log.Warn("an API service does not say what it serves", "name", s.Name, "error", err)
		return nil // as Kubernetes, which looks at the status alone
	}
	a.learn(groupVersion(s), described(s.Spec.Version, &list))
	a.learnDocument(ctx, s, c)
	return nil
}

// address is where a server has a path.
func address(s *v1.APIService, path string) *url.URL {
	ref := s.Spec.Service
	return &url.URL{Scheme: "https", Host: fmt.Sprintf("%s.%s.svc:%d", ref.Name, ref.Namespace, *ref.Port), Path: path}
}

// get asks a server something as the API server itself, with further headers, of which those without a value are left
// out.
func (a *Aggregator) get(ctx context.Context, s *v1.APIService, c *connections, path string, headers ...string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address(s, path).String(), nil)
	if err != nil {
		return nil, err
	}
	setIdentity(q.Header, itself)
	q.Header.Set("Accept", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] != "" {
			q.Header.Set(headers[i], headers[i+1])
		}
	}
	q.Header.Add("Via", a.via)
	return c.shared.RoundTrip(q)
}

// discoveryPath is where a server must answer.
func discoveryPath(s *v1.APIService) string {
	if s.Spec.Group == "" {
		return "/api/" + s.Spec.Version
	}
	return "/apis/" + s.Spec.Group + "/" + s.Spec.Version
}

// report writes the condition, if it is another one than before.
func (a *Aggregator) report(ctx context.Context, name string, now v1.APIServiceCondition) error {
	storage, err := a.storage()
	if err != nil {
		return err
	}
	return setCondition(ctx, storage, name, now)
}
