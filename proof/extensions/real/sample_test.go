//go:build unix

package real_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/proof/internal/etcdtest"
)

const alpha, beta = "v1alpha1.wardle.example.com", "v1beta1.wardle.example.com"

var (
	flunders = schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1alpha1", Resource: "flunders"}
	fischers = schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1alpha1", Resource: "fischers"}
)

// sample is a cluster with the sample API server.
type sample struct {
	*world
	*extension
	audit string // the server's audit log
}

func TestTheSampleAPIServer(t *testing.T) {
	path := built(t, sampleServer, "")
	s := newSample(t, path)
	for _, part := range []struct {
		name string
		run  func(*sample)
	}{
		{"its conditions until it answers", (*sample).becomesAvailable},
		{"discovery", (*sample).isDiscovered},
		{"OpenAPI", (*sample).isDescribed},
		{"an ordinary user uses it", (*sample).isUsed},
		{"it learns who asks", (*sample).learnsWhoAsks},
		{"it asks the cluster about those who call it directly", (*sample).delegatesToTheCluster},
		{"large bodies", (*sample).takesLargeBodies},
		{"a watch outlives changes of the APIService", (*sample).keepsWatches},
		{"owners", (*sample).losesWhatHasNoOwner},
		{"a namespace", (*sample).losesNamespaces},
		{"it hangs", (*sample).hangs},
		{"it is killed", (*sample).isKilled},
		{"it comes back", (*sample).comesBack},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(&sample{s.within(t), s.extension, s.audit}) }) {
			return // what follows would wait for nothing
		}
	}
}

// newSample returns a cluster that knows the server, which does not run yet.
func newSample(t *testing.T, path string) *sample {
	w := newWorld(t, millrace.Options{})
	s := &sample{w, w.newExtension(path, "wardle", "api"), filepath.Join(w.directory, "audit.log")}
	w.apply("sample.yaml", s.words()...)
	s.delegates(w.account("wardle", "apiserver"))
	policy := w.file("policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, omitStages: [RequestReceived]}]\n")
	s.args = append(s.args, "--etcd-servers="+etcdtest.Start(t), "--audit-log-path="+s.audit, "--audit-policy-file="+policy)
	return s
}

func (s *sample) becomesAvailable() {
	if c := s.condition(alpha, "EndpointsNotFound"); c.Status != "False" || c.Message != `cannot find endpointslices for service/api in "wardle"` {
		s.Errorf("%+v", c)
	}
	s.apply("slice.yaml", append(s.words(), "{NAMESPACE}", "wardle", "{SERVICE}", "api")...)
	c := s.condition(alpha, "FailedDiscoveryCheck")
	if err := contains(c.Message, "failing or missing response from https://", "/apis/wardle.example.com/v1alpha1", "connection refused"); err != nil || c.Status != "False" {
		s.Errorf("%v, %v", c.Status, err)
	}
	if _, err := s.objects.Resource(flunders).List(s.Context(), metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		s.Errorf("a list is answered with %v", err)
	}
	s.start(s.world)
	for _, name := range []string{alpha, beta} {
		if c := s.condition(name, "Passed"); c.Status != "True" || c.Message != "all checks passed" {
			s.Errorf("%s: %+v", name, c)
		}
	}
	s.eventually("requests reach it", func() error {
		_, err := s.objects.Resource(flunders).List(s.Context(), metav1.ListOptions{})
		return err
	})
}

func (s *sample) isDiscovered() {
	for name, modern := range map[string]bool{"aggregated": true, "one document for each version": false} {
		d := discovery.NewDiscoveryClientForConfigOrDie(s.cluster.Config())
		d.UseLegacyDiscovery = !modern
		groups, lists, err := d.ServerGroupsAndResources()
		s.must(err)
		i := slices.IndexFunc(groups, func(g *metav1.APIGroup) bool { return g.Name == flunders.Group })
		if i < 0 || groups[i].PreferredVersion.Version != "v1beta1" || len(groups[i].Versions) != 2 {
			s.Fatalf("%s: groups %v", name, groups)
		}
		var found []string
		for _, list := range lists {
			if strings.HasPrefix(list.GroupVersion, flunders.Group+"/") {
				for _, r := range list.APIResources {
					found = append(found, fmt.Sprintf("%s %s %s %v %v", list.GroupVersion, r.Name, r.Kind, r.Namespaced, slices.Contains(r.Verbs, "watch")))
				}
			}
		}
		slices.Sort(found)
		want := []string{"wardle.example.com/v1alpha1 fischers Fischer false true", "wardle.example.com/v1alpha1 flunders Flunder true true", "wardle.example.com/v1beta1 flunders Flunder true true"}
		if !slices.Equal(found, want) {
			s.Errorf("%s: %q", name, found)
		}
	}
	out, messages, ok := s.kubectl("api-resources", "--api-group=wardle.example.com")
	if err := contains(out, "fischers", "flunders", "wardle.example.com/v1beta1"); err != nil || !ok {
		s.Errorf("%v, %s", err, messages)
	}
}

func (s *sample) isDescribed() {
	const flunder = "sample_apiserver.pkg.apis.wardle.v1alpha1.Flunder"
	for path, words := range map[string][]string{
		"/openapi/v2": {flunder + `"`, "/apis/wardle.example.com/v1alpha1/namespaces/{namespace}/flunders", `"io.k8s.api.core.v1.Pod"`},
		"/openapi/v3": {"apis/wardle.example.com/v1alpha1", "apis/wardle.example.com/v1beta1", "apis/apps/v1"},
		"/openapi/v3/apis/wardle.example.com/v1alpha1": {flunder + `"`, "disallowedFlunders"},
	} {
		s.eventually(path, func() error {
			text, err := s.kube.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(s.Context())
			if err != nil {
				return err
			}
			if err := contains(strings.ReplaceAll(string(text), "sample-apiserver", "sample_apiserver"), words...); err != nil {
				return fmt.Errorf("%.500s", err.Error())
			}
			return nil
		})
	}
	out, messages, ok := s.kubectl("explain", "fischers.disallowedFlunders")
	if err := contains(out, "DisallowedFlunders holds a list of Flunder.Names"); err != nil || !ok {
		s.Errorf("%v, %s", err, messages)
	}
}

// alice is a member of the group that may use flunders.
func (s *sample) alice() *dynamic.DynamicClient {
	return dynamic.NewForConfigOrDie(s.user("alice", "fishers"))
}

func flunder(name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": map[string]any{"name": name}}}
	for k, v := range fields {
		o.Object[k] = v
	}
	return o
}

func spec(reference string) map[string]any {
	return map[string]any{"spec": map[string]any{"reference": reference}}
}

func (s *sample) isUsed() {
	ctx, own := s.Context(), s.alice().Resource(flunders).Namespace("default")
	created, err := own.Create(ctx, flunder("one", spec("first")), metav1.CreateOptions{})
	s.must(err)
	if got, _, _ := unstructured.NestedString(created.Object, "spec", "referenceType"); got != "Flunder" {
		s.Errorf("the server's defaults are not there: %v", created.Object)
	}
	w, err := own.Watch(ctx, metav1.ListOptions{ResourceVersion: created.GetResourceVersion()})
	s.must(err)
	defer w.Stop()
	_, err = own.Patch(ctx, "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"by":"merge"}}}`), metav1.PatchOptions{})
	s.must(err)
	_, err = own.Patch(ctx, "one", types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/reference","value":"second"}]`), metav1.PatchOptions{})
	s.must(err)
	applied, err := own.Apply(ctx, "two", flunder("two", spec("one")), metav1.ApplyOptions{FieldManager: "alice"})
	s.must(err)
	if f := applied.GetManagedFields(); len(f) != 1 || f[0].Manager != "alice" || f[0].Operation != metav1.ManagedFieldsOperationApply {
		s.Errorf("managed fields: %v", f)
	}
	if _, err := own.Apply(ctx, "two", flunder("two", spec("other")), metav1.ApplyOptions{FieldManager: "bob"}); !apierrors.IsConflict(err) {
		s.Errorf("another manager's apply: %v", err)
	}
	list, err := own.List(ctx, metav1.ListOptions{LabelSelector: "by=merge"})
	s.must(err)
	if len(list.Items) != 1 || list.Items[0].GetName() != "one" {
		s.Errorf("a list by label: %v", list.Items)
	}
	bad := flunder("bad", map[string]any{"spec": map[string]any{"referenceType": "None"}})
	bad.SetAPIVersion("wardle.example.com/v1beta1")
	if _, err := s.alice().Resource(flunders.GroupResource().WithVersion("v1beta1")).Namespace("default").Create(ctx, bad, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		s.Errorf("an object that is not valid: %v", err)
	}
	s.must(own.Delete(ctx, "one", metav1.DeleteOptions{}))
	s.must(own.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	var seen []string
	for len(seen) < 5 {
		e, ok := <-w.ResultChan()
		if !ok {
			break
		}
		seen = append(seen, fmt.Sprint(e.Type, " ", name(e)))
	}
	if want := []string{"MODIFIED one", "MODIFIED one", "ADDED two", "DELETED one", "DELETED two"}; !slices.Equal(seen, want) {
		s.Errorf("a watch shows %q", seen)
	}
	if _, err := s.alice().Resource(fischers).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		s.Errorf("what alice may not: %v", err)
	}
}

func name(e watch.Event) string {
	if o, ok := e.Object.(metav1.Object); ok {
		return o.GetName()
	}
	return fmt.Sprint(e.Object)
}

// auditedUser is who asked for an object, as the server's audit log says.
func (s *sample) auditedUser(object string) (u authenticationv1.UserInfo, err error) {
	text, err := os.ReadFile(s.audit)
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(text)) {
		var event struct {
			User authenticationv1.UserInfo
			URI  string `json:"requestURI"`
		}
		if json.Unmarshal([]byte(line), &event) == nil && strings.Contains(event.URI, object) {
			return event.User, nil
		}
	}
	return u, fmt.Errorf("nobody has asked for %s", object)
}

func (s *sample) learnsWhoAsks() {
	config := s.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "dora", UID: "17", Groups: []string{"fishers", "a:b c"}, Extra: map[string][]string{"example.com/boat": {"red", "blue"}}}
	_, err := dynamic.NewForConfigOrDie(config).Resource(flunders).Namespace("default").Get(s.Context(), "for-dora", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		s.Fatal(err)
	}
	want := authenticationv1.UserInfo{Username: "dora", UID: "17", Groups: []string{"fishers", "a:b c", "system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{"example.com/boat": {"red", "blue"}}}
	s.eventually("the audit log", func() error {
		got, err := s.auditedUser("for-dora")
		if err == nil && !reflect.DeepEqual(got, want) {
			err = fmt.Errorf("it was %+v who asked, not %+v", got, want)
		}
		return err
	})
}

// delegatesToTheCluster calls the server without Millrace between.
func (s *sample) delegatesToTheCluster() {
	direct := func(config *rest.Config) *dynamic.DynamicClient {
		c := rest.CopyConfig(config)
		c.Host, c.CAData = "https://"+s.address+":"+s.port, s.bundle
		return dynamic.NewForConfigOrDie(c)
	}
	list := func(config *rest.Config) error {
		_, err := direct(config).Resource(flunders).Namespace("default").List(s.Context(), metav1.ListOptions{})
		return err
	}
	// A client certificate of the cluster, which the server verifies by the config map, and a SubjectAccessReview.
	s.must(list(s.user("alice", "fishers")))
	if err := list(s.user("bob")); !apierrors.IsForbidden(err) {
		s.Errorf("bob: %v", err)
	}
	// A token, for which the server asks with a TokenReview.
	token, err := s.kube.CoreV1().ServiceAccounts("default").CreateToken(s.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	s.must(err)
	plain := &rest.Config{BearerToken: token.Status.Token}
	if err := list(plain); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:serviceaccount:default:default") {
		s.Errorf("a service account: %v", err)
	}
	if err := list(&rest.Config{BearerToken: "nonsense"}); !apierrors.IsUnauthorized(err) {
		s.Errorf("a token of nobody: %v", err)
	}
	// Headers of front proxies are only believed with the certificate of one.
	pretending := s.user("bob")
	pretending.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return pretender{next} }
	if err := list(pretending); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "bob") {
		s.Errorf("bob says that he is alice: %v", err)
	}
}

// pretender says in headers that alice asks.
type pretender struct{ http.RoundTripper }

func (p pretender) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Remote-User", "alice")
	r.Header.Set("X-Remote-Group", "fishers")
	return p.RoundTripper.RoundTrip(r)
}

func (s *sample) takesLargeBodies() {
	const size, count = 1 << 20, 20
	ctx, own := s.Context(), s.alice().Resource(flunders).Namespace("default")
	long := strings.Repeat("x", size)
	for i := range count {
		_, err := own.Create(ctx, flunder(fmt.Sprint("large-", i), spec(long)), metav1.CreateOptions{})
		s.must(err)
	}
	list, err := own.List(ctx, metav1.ListOptions{})
	s.must(err)
	for _, o := range list.Items {
		if got, _, _ := unstructured.NestedString(o.Object, "spec", "reference"); got != long {
			s.Errorf("%s has %d bytes", o.GetName(), len(got))
		}
	}
	if len(list.Items) != count {
		s.Errorf("%d objects are listed", len(list.Items))
	}
	if _, err := own.Create(ctx, flunder("too-large", spec(strings.Repeat("x", 4<<20))), metav1.CreateOptions{}); !apierrors.IsRequestEntityTooLargeError(err) {
		s.Errorf("a body that the server refuses: %v", err)
	}
	s.must(own.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
}

func (s *sample) keepsWatches() {
	ctx, own := s.Context(), s.alice().Resource(flunders).Namespace("default")
	w, err := own.Watch(ctx, metav1.ListOptions{})
	s.must(err)
	defer w.Stop()
	for i := range 3 {
		_, err := s.services.ApiregistrationV1().APIServices().Patch(ctx, alpha, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"round":"%d"}},"spec":{"versionPriority":%d}}`, i, 15-i), metav1.PatchOptions{})
		s.must(err)
		made := fmt.Sprint("seen-", i)
		_, err = own.Create(ctx, flunder(made, nil), metav1.CreateOptions{})
		s.must(err)
		if e := <-w.ResultChan(); e.Type != watch.Added || name(e) != made {
			s.Fatalf("the watch shows %v %v", e.Type, e.Object)
		}
	}
	s.must(own.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
}

func (s *sample) losesWhatHasNoOwner() {
	ctx := s.Context()
	owner, err := s.kube.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	s.must(err)
	o := flunder("owned", nil)
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}})
	all := s.objects.Resource(flunders).Namespace("default")
	_, err = all.Create(ctx, o, metav1.CreateOptions{})
	s.must(err)
	s.must(s.kube.CoreV1().ConfigMaps("default").Delete(ctx, owner.Name, metav1.DeleteOptions{}))
	s.eventually("what has lost its owner", func() error { return s.gone(ctx, all, "owned") })
}

func (s *sample) gone(ctx context.Context, of dynamic.ResourceInterface, name string) error {
	_, err := of.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s is there, or %v", name, err)
}

// pond makes a namespace with a flunder.
func (s *sample) pond(namespace string) {
	s.Helper()
	_, err := s.kube.CoreV1().Namespaces().Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	s.must(err)
	s.eventually("the server knows the namespace", func() error { // its own admission follows namespaces by a watch
		_, err := s.objects.Resource(flunders).Namespace(namespace).Create(s.Context(), flunder("in-it", nil), metav1.CreateOptions{})
		return err
	})
}

func (s *sample) losesNamespaces() {
	s.pond("pond")
	s.must(s.kube.CoreV1().Namespaces().Delete(s.Context(), "pond", metav1.DeleteOptions{}))
	s.eventually("the namespace", func() error {
		_, err := s.kube.CoreV1().Namespaces().Get(s.Context(), "pond", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there, or %v", err)
	})
	if err := s.gone(s.Context(), s.objects.Resource(flunders).Namespace("pond"), "in-it"); err != nil {
		s.Error(err)
	}
}
