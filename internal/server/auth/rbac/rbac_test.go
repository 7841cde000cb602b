package rbac_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/millrace/millrace/internal/cputime"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/rbac"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/faults"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

var (
	alice  = auth.User{Name: "alice", Groups: []string{"dev", auth.Authenticated}}
	nobody = auth.User{}
)

func TestRolesAllowWhatTheirRulesSay(t *testing.T) {
	w := newWorld(t, nil)
	w.must(w.create(nobody, "clusterroles", clusterRole("reader", rule("get", "", "pods"), rule("*", "apps", "*"), rule("get", "", "*/log"),
		rule("update", "", "secrets", "one"), rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/logs/*", "/metrics"}})))
	w.must(w.create(nobody, "clusterrolebindings", clusterBinding("b", "reader", user("alice"))))
	for _, c := range []struct {
		at   auth.Attributes
		want bool
	}{
		{auth.Attributes{Verb: "get", Resource: "pods", IsResource: true}, true},
		{auth.Attributes{Verb: "get", Resource: "pods", Namespace: "any", Name: "p", IsResource: true}, true},
		{auth.Attributes{Verb: "list", Resource: "pods", IsResource: true}, false},
		{auth.Attributes{Verb: "get", Resource: "pods", Group: "apps", IsResource: true}, true},
		{auth.Attributes{Verb: "get", Resource: "pods", Group: "batch", IsResource: true}, false},
		{auth.Attributes{Verb: "get", Resource: "pods", Subresource: "status", IsResource: true}, false},
		{auth.Attributes{Verb: "get", Resource: "pods", Subresource: "log", IsResource: true}, true},
		{auth.Attributes{Verb: "delete", Resource: "deployments", Subresource: "scale", Group: "apps", IsResource: true}, true},
		{auth.Attributes{Verb: "update", Resource: "secrets", Name: "one", IsResource: true}, true},
		{auth.Attributes{Verb: "update", Resource: "secrets", Name: "two", IsResource: true}, false},
		{auth.Attributes{Verb: "update", Resource: "secrets", IsResource: true}, false},
		{auth.Attributes{Verb: "get", Path: "/metrics"}, true},
		{auth.Attributes{Verb: "get", Path: "/metrics/"}, false},
		{auth.Attributes{Verb: "get", Path: "/logs/a/b"}, true},
		{auth.Attributes{Verb: "post", Path: "/metrics"}, false},
		{auth.Attributes{Verb: "get", Path: "/Metrics"}, false},
	} {
		c.at.User = alice
		if v := w.rbac.Authorize(w.ctx, c.at); v.Allowed() != c.want || v.Err != nil {
			t.Errorf("%+v: %v, %v", c.at, v.Allowed(), v.Err)
		}
		if c.at.User.Name = "bob"; w.rbac.Authorize(w.ctx, c.at).Allowed() {
			t.Errorf("%+v is allowed to somebody else", c.at)
		}
	}
}

func TestBindingsGiveToUsersGroupsAndAccountsWhereTheyAre(t *testing.T) {
	w := newWorld(t, nil)
	w.must(w.create(nobody, "clusterroles", clusterRole("reader", rule("get", "", "pods"))))
	w.must(w.create(nobody, "roles", role("a", "writer", rule("create", "", "pods"))))
	w.must(w.create(nobody, "rolebindings", binding("a", "readers", "ClusterRole", "reader", group("dev"))))
	w.must(w.create(nobody, "rolebindings", binding("a", "writers", "Role", "writer", rbacv1.Subject{Kind: "ServiceAccount", Name: "robot", Namespace: "a"})))
	w.must(w.create(nobody, "rolebindings", binding("b", "lost", "Role", "writer", user("alice"))))
	robot := auth.User{Name: "system:serviceaccount:a:robot"}
	for _, c := range []struct {
		u                         auth.User
		namespace, verb, resource string
		want                      bool
	}{
		{alice, "a", "get", "pods", true}, {alice, "b", "get", "pods", false}, {alice, "", "get", "pods", false},
		{robot, "a", "create", "pods", true}, {robot, "b", "create", "pods", false}, {robot, "a", "get", "pods", false},
		{auth.User{Name: "robot"}, "a", "create", "pods", false}, {auth.User{Name: "dev"}, "a", "get", "pods", false},
		{alice, "b", "create", "pods", false},
	} {
		if got := w.may(c.u, c.namespace, c.verb, c.resource); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	v := w.rbac.Authorize(w.ctx, auth.Attributes{User: alice, Verb: "get", Resource: "pods", Namespace: "a", IsResource: true})
	if want := `RBAC: allowed by RoleBinding "readers/a" of ClusterRole "reader" to Group "dev"`; v.Why() != want {
		t.Errorf("because %s", v.Why())
	}
	v = w.rbac.Authorize(w.ctx, auth.Attributes{User: alice, Verb: "create", Resource: "pods", Namespace: "b", IsResource: true})
	if want := `RBAC: role.rbac.authorization.k8s.io "writer" not found`; v.Why() != want {
		t.Errorf("because %s", v.Why())
	}
}

func TestTheNextRequestSeesAChangeOnEveryServer(t *testing.T) {
	here := newWorld(t, nil)
	there := newWorld(t, here.store)
	here.must(here.create(nobody, "clusterroles", clusterRole("reader", rule("get", "", "pods"))))
	for i := range 200 {
		name := fmt.Sprintf("b%d", i)
		here.must(here.create(nobody, "clusterrolebindings", clusterBinding(name, "reader", user(name))))
		u := auth.User{Name: name}
		if !there.may(u, "", "get", "pods") {
			t.Fatalf("binding %d is not seen by the other server", i)
		}
		if !here.may(u, "", "get", "pods") {
			t.Fatalf("binding %d is not seen by the server that made it", i)
		}
		here.delete("clusterrolebindings", "", name)
		if here.may(u, "", "get", "pods") {
			t.Fatalf("the end of binding %d is not seen by the server that deleted it", i)
		}
		if there.may(u, "", "get", "pods") {
			t.Fatalf("the end of binding %d is not seen by the other server", i)
		}
	}
}

func TestAServerWhoseEventsAreLateAllowsNothingThatHasEnded(t *testing.T) {
	here := newWorld(t, nil)
	late := faults.Wrap(here.store)
	there := newWorld(t, late)
	here.must(here.create(nobody, "clusterroles", clusterRole("reader", rule("get", "", "pods"))))
	here.must(here.create(nobody, "clusterrolebindings", clusterBinding("b", "reader", user("alice"))))
	if !there.may(alice, "", "get", "pods") {
		t.Fatal("the binding is not seen by the other server")
	}
	release := late.Hold()
	here.delete("clusterrolebindings", "", "b")
	time.AfterFunc(50*time.Millisecond, release)
	if there.may(alice, "", "get", "pods") {
		t.Error("the other server has not waited for the end of the binding")
	}
}

// From the moment at which the restored state can be seen, nothing is allowed by what was granted after the backup.
func TestWhatWasGrantedAfterABackupEndsBeforeTheRestoredStateIsSeen(t *testing.T) {
	backup := memory.New(memory.Options{})
	t.Cleanup(func() { backup.Close() })
	behind := storetest.NewRestorable(memory.New(memory.Options{}))
	w := newWorld(t, behind)
	w.must(w.create(nobody, "clusterroles", clusterRole("reader", rule("get", "", "pods"))))
	w.must(w.create(nobody, "clusterrolebindings", clusterBinding("b", "reader", user("alice"))))
	if !w.may(alice, "", "get", "pods") {
		t.Fatal("the binding is not seen")
	}
	decided := make(chan auth.Verdict, 1)
	w.reg.Cache.OnReplaced(func() {
		ended, cancel := context.WithCancel(t.Context())
		cancel() // there is nothing to wait for yet
		decided <- w.rbac.Authorize(ended, auth.Attributes{User: alice, Verb: "get", IsResource: true, Resource: "pods"})
	})
	behind.Restore(backup)
	if _, err := w.reg.Cache.Newest(t.Context()); err == nil {
		t.Fatal("the cache does not notice")
	}
	if (<-decided).Allowed() {
		t.Error("a request is allowed by the state before the restore")
	}
	if w.may(alice, "", "get", "pods") {
		t.Error("the binding is there after the restore")
	}
}

func TestARefusalAsksASharedStoreOnce(t *testing.T) {
	here := newWorld(t, nil)
	asked := faults.Wrap(here.store)
	there := newWorld(t, asked)
	for _, u := range []auth.User{alice, nobody} {
		before := asked.Calls(faults.Revision)
		if there.may(u, "", "get", "pods") {
			t.Fatalf("%q may read pods", u.Name)
		}
		if n := asked.Calls(faults.Revision) - before; n != 1 {
			t.Errorf("the store was asked %d times", n)
		}
	}
}

func TestWhatIsKnownIsAllowedWhileTheStoreDoesNotAnswer(t *testing.T) {
	here := newWorld(t, nil)
	silent := faults.Wrap(here.store)
	there := newWorld(t, silent)
	here.must(here.create(nobody, "clusterroles", clusterRole("reader", rule("get", "", "pods"))))
	here.must(here.create(nobody, "clusterrolebindings", clusterBinding("b", "reader", user("alice"))))
	if !there.may(alice, "", "get", "pods") {
		t.Fatal("the binding is not seen by the other server")
	}
	for name, rule := range map[string]faults.Rule{"hangs": {Ops: faults.Revision, Gate: make(chan struct{})}, "fails": {Ops: faults.Revision, Err: store.ErrUnavailable}} {
		mend := silent.Inject(rule)
		before := silent.Calls(faults.Revision)
		for range 100 {
			if !there.may(alice, "", "get", "pods") {
				t.Fatalf("the store %s: what is known is not allowed", name)
			}
		}
		if asked := silent.Calls(faults.Revision) - before; asked > 1 {
			t.Errorf("the store %s, and was asked %d times", name, asked)
		}
		mend()
	}
}

func TestNobodyGivesMoreThanTheyHave(t *testing.T) {
	w := newWorld(t, nil)
	w.must(w.create(nobody, "clusterroles", clusterRole("manager", rule("*", rbacv1.GroupName, "roles"), rule("get", "", "pods"), rule("list", "", "pods"))))
	w.must(w.create(nobody, "clusterroles", clusterRole("strong", rule("get", "", "secrets"), rule("list", "", "secrets"))))
	w.must(w.create(nobody, "rolebindings", binding("a", "b", "ClusterRole", "manager", user("alice"))))
	w.must(w.create(nobody, "clusterroles", clusterRole("binder", rule("bind", rbacv1.GroupName, "clusterroles", "strong"))))
	w.must(w.create(nobody, "rolebindings", binding("c", "b", "ClusterRole", "binder", user("alice"))))

	w.must(w.create(alice, "rolebindings", binding("c", "by-permission", "ClusterRole", "strong", user("bob"))))
	err := w.create(alice, "rolebindings", binding("a", "too-much", "ClusterRole", "strong", user("alice")))
	const want = `rolebindings.rbac.authorization.k8s.io "too-much" is forbidden: user "alice" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("%v", err)
	}
	if err := w.create(alice, "clusterrolebindings", clusterBinding("everywhere", "manager", user("alice"))); !apierrors.IsForbidden(err) {
		t.Errorf("what is had in one namespace is given everywhere: %v", err)
	}
	if err := w.create(alice, "rolebindings", binding("a", "missing", "ClusterRole", "missing", user("alice"))); !apierrors.IsNotFound(err) {
		t.Errorf("a role that is to come is bound: %v", err)
	}
	if err := w.create(alice, "clusterroles", &rbacv1.ClusterRole{ObjectMeta: meta("", "gathers"), AggregationRule: &rbacv1.AggregationRule{
		ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}}}); !apierrors.IsForbidden(err) || !strings.HasSuffix(err.Error(), "must have cluster-admin privileges to use the aggregationRule") {
		t.Errorf("%v", err)
	}
	w.must(w.create(auth.User{Name: "root", Groups: []string{auth.Masters}}, "clusterroles", clusterRole("all", rule("*", "*", "*"))))
}

func TestARoleGrowsOnlyByWhatItsWriterHas(t *testing.T) {
	w := newWorld(t, nil)
	w.must(w.create(nobody, "roles", role("a", "own", rule("update", rbacv1.GroupName, "roles"), rule("get", "", "pods"))))
	w.must(w.create(nobody, "rolebindings", binding("a", "b", "Role", "own", user("alice"))))
	grow := func(r rbacv1.PolicyRule) error {
		_, _, err := w.storage("roles").Update(w.as(alice), "a", "own", addRule(r), registry.UpdateOptions{})
		return err
	}
	if err := grow(rule("get", "", "secrets")); !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
	if err := grow(rule("get", "", "pods", "one")); err != nil {
		t.Errorf("%v", err)
	}
}

func TestPolicyIsReconciledAndWhatWasAddedStays(t *testing.T) {
	w := newWorld(t, nil)
	p := rbac.DefaultPolicy()
	w.must(rbac.Reconcile(w.ctx, w.reg, p))
	if n := len(p.ClusterRoles) + len(p.Roles); n < 80 {
		t.Errorf("the policy has %d roles", n)
	}
	root := auth.User{Name: "x", Groups: []string{auth.Masters}}
	if !w.may(root, "n", "delete", "pods") {
		t.Error("cluster-admin is not bound to its group")
	}
	for _, c := range []struct {
		u    auth.User
		verb string
		of   string
		want bool
	}{
		{auth.User{Name: "system:kube-scheduler"}, "create", "pods/binding", true},
		{auth.User{Name: "system:kube-scheduler"}, "create", "pods", false},
		{auth.User{Name: "system:serviceaccount:kube-system:replicaset-controller"}, "create", "pods", true},
	} {
		resource, sub, _ := strings.Cut(c.of, "/")
		v := w.rbac.Authorize(w.ctx, auth.Attributes{User: c.u, Verb: c.verb, Resource: resource, Subresource: sub, IsResource: true, Namespace: "n"})
		if v.Allowed() != c.want {
			t.Errorf("%s: %s %s: %v", c.u.Name, c.verb, c.of, v.Allowed())
		}
	}
	_, _, err := w.storage("clusterroles").Update(w.ctx, "", "view", addRule(rule("get", "example.com", "things")), registry.UpdateOptions{})
	w.must(err)
	w.delete("clusterrolebindings", "", "system:discovery")
	w.must(rbac.Reconcile(w.ctx, w.reg, p))
	if v := w.rbac.Authorize(w.ctx, auth.Attributes{User: alice, Verb: "get", Path: "/apis/apps"}); !v.Allowed() {
		t.Error("a binding that was deleted is not made again")
	}
}

func TestRandomPoliciesDecideAsTheirRulesListedOneByOne(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, nil)
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	rules := map[string][]rbacv1.PolicyRule{}
	for i := range 20 {
		name := fmt.Sprintf("r%d", i)
		for range r.IntN(4) {
			one := rule(pick("get", "list", "*"), pick("", "apps", "*"), pick("pods", "pods/log", "*", "*/log", "secrets"))
			if r.IntN(3) == 0 {
				one.ResourceNames = []string{pick("x", "y")}
			}
			rules[name] = append(rules[name], one)
		}
		w.must(w.create(nobody, "clusterroles", clusterRole(name, rules[name]...)))
	}
	type given struct{ namespace, role, user string }
	var all []given
	for i := range 60 {
		g := given{pick("", "a", "b"), fmt.Sprintf("r%d", r.IntN(20)), pick("u", "v", "w")}
		all = append(all, g)
		if g.namespace == "" {
			w.must(w.create(nobody, "clusterrolebindings", clusterBinding(fmt.Sprint(i), g.role, user(g.user))))
		} else {
			w.must(w.create(nobody, "rolebindings", binding(g.namespace, fmt.Sprint(i), "ClusterRole", g.role, user(g.user))))
		}
	}
	for range 3000 {
		at := auth.Attributes{User: auth.User{Name: pick("u", "v", "w")}, Verb: pick("get", "list", "watch"), Group: pick("", "apps"), IsResource: true,
			Resource: pick("pods", "secrets"), Subresource: pick("", "log"), Namespace: pick("", "a", "b"), Name: pick("", "x", "y")}
		wanted := rbacv1.PolicyRule{Verbs: []string{at.Verb}, APIGroups: []string{at.Group}, Resources: []string{strings.TrimSuffix(at.Resource+"/"+at.Subresource, "/")}}
		if at.Name != "" {
			wanted.ResourceNames = []string{at.Name}
		}
		want := false
		for _, g := range all {
			if g.user == at.User.Name && (g.namespace == "" || g.namespace == at.Namespace) {
				covered, _ := validation.Covers(rules[g.role], []rbacv1.PolicyRule{wanted})
				want = want || covered
			}
		}
		if got := w.rbac.Authorize(w.ctx, at).Allowed(); got != want {
			t.Fatalf("seed %d: %+v: %v", seed, at, got)
		}
	}
}

// crowded is a world with 5,000 roles and 50,000 bindings.
func crowded(b *testing.B) *world {
	w := newWorld(b, nil)
	for i := range 5000 {
		w.must(w.create(nobody, "roles", role("n"+fmt.Sprint(i%500), fmt.Sprintf("r%d", i), rule("get", "", "pods"), rule("list", "apps", "deployments"), rule("*", "batch", "jobs"))))
	}
	for i := range 50_000 {
		n := i % 5000
		w.must(w.create(nobody, "rolebindings", binding("n"+fmt.Sprint(n%500), fmt.Sprintf("b%d", i), "Role", fmt.Sprintf("r%d", n), user(fmt.Sprintf("u%d", i/10)), group(fmt.Sprintf("g%d", i%100)))))
	}
	return w
}

// BenchmarkReadyAmong50000Bindings starts another server on a store that has them: its cache and its index.
func BenchmarkReadyAmong50000Bindings(b *testing.B) {
	w := crowded(b)
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	cpu := func() float64 {
		return float64(cputime.Process()) / 1e6
	}
	before, n, spent := heap(), 0, 0.0
	for b.Loop() {
		began := cpu()
		newWorld(b, w.store)
		spent += cpu() - began
		n++
	}
	b.ReportMetric((heap()-before)/float64(n), "MiB/server")
	b.ReportMetric(spent/float64(n), "cpu-ms/server")
}

func BenchmarkAuthorizeAmong50000Bindings(b *testing.B) {
	w := crowded(b)
	at := auth.Attributes{User: auth.User{Name: "u3", Groups: []string{"g30", "dev", auth.Authenticated}}, Verb: "list", Group: "apps", Resource: "deployments", Namespace: "n30", IsResource: true}
	if !w.rbac.Authorize(w.ctx, at).Allowed() {
		b.Fatal("it is not allowed")
	}
	b.ReportAllocs()
	for b.Loop() {
		w.rbac.Authorize(w.ctx, at)
	}
}

// addRule makes an updater that adds a rule to a role.
func addRule(r rbacv1.PolicyRule) registry.Updater {
	return func(_ context.Context, old resource.Object) (resource.Object, error) {
		switch o := old.DeepCopyObject().(type) {
		case *rbacv1.Role:
			o.Rules = append(o.Rules, r)
			return o, nil
		case *rbacv1.ClusterRole:
			o.Rules = append(o.Rules, r)
			return o, nil
		}
		return nil, fmt.Errorf("%T has no rules", old)
	}
}
