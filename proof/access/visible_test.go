package access_test

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace"
)

// seen lists the namespaces that a user sees who asks for those in which they may do something.
func (c *cluster) seen(by kubernetes.Interface, o metav1.ListOptions) (*corev1.NamespaceList, error) {
	list := &corev1.NamespaceList{}
	err := by.CoreV1().RESTClient().Get().Resource("namespaces").VersionedParams(&o, scheme.ParameterCodec).Param("visible", "true").Do(c.ctx).Into(list)
	return list, err
}

// sees fails the test if a user sees other namespaces than these, without those of the system if there are such.
func (c *cluster) sees(by kubernetes.Interface, want ...string) *corev1.NamespaceList {
	c.Helper()
	list, err := c.seen(by, metav1.ListOptions{})
	c.must(err)
	var names []string
	for _, n := range list.Items {
		names = append(names, n.Name)
	}
	if !slices.Equal(names, want) {
		c.Errorf("the namespaces that are seen are %v, want %v", names, want)
	}
	return list
}

// binding gives a subject a cluster role in a namespace, or everywhere if that is empty, and returns what takes it
// away.
func (c *cluster) binding(namespace, role string, to rbacv1.Subject) (withdraw func()) {
	c.Helper()
	meta, ref := metav1.ObjectMeta{GenerateName: "b-"}, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	if namespace == "" {
		b, err := c.admin.RbacV1().ClusterRoleBindings().Create(c.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{to}}, metav1.CreateOptions{})
		c.must(err)
		return func() { c.must(c.admin.RbacV1().ClusterRoleBindings().Delete(c.ctx, b.Name, metav1.DeleteOptions{})) }
	}
	b, err := c.admin.RbacV1().RoleBindings(namespace).Create(c.ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{to}}, metav1.CreateOptions{})
	c.must(err)
	return func() { c.must(c.admin.RbacV1().RoleBindings(namespace).Delete(c.ctx, b.Name, metav1.DeleteOptions{})) }
}

func (c *cluster) role(name string, rules ...rbacv1.PolicyRule) {
	c.Helper()
	_, err := c.admin.RbacV1().ClusterRoles().Create(c.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	c.must(err)
}

// startWithNamespaces starts an API server with the namespaces a to d.
func startWithNamespaces(t *testing.T) *cluster {
	t.Helper()
	c := startAPIServer(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		c.namespace(name)
	}
	return c
}

func (c *cluster) namespace(name string) {
	c.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": "test"}}}
	_, err := c.admin.CoreV1().Namespaces().Create(c.ctx, n, metav1.CreateOptions{})
	c.must(err)
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}
}

func TestAUserSeesTheNamespacesInWhichTheyMayDoSomething(t *testing.T) {
	c := startWithNamespaces(t)
	alice := c.as("alice", "dev")
	c.sees(alice) // what every authenticated user may do is in no namespace
	withdraw := c.binding("b", "system:aggregate-to-edit", user("alice"))
	c.binding("d", "system:aggregate-to-view", group("dev"))
	c.sees(alice, "b", "d")
	c.sees(c.as("bob", "dev"), "d")
	c.sees(c.as("bob"))
	c.binding("a", "missing", user("alice"))
	c.role("nothing")
	c.binding("a", "nothing", user("alice"))
	c.binding("a", "system:basic-user", user("alice"))
	c.sees(alice, "b", "d") // none of these allows anything in a
	c.role("named", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"c", "gone"}})
	c.binding("", "named", user("alice"))
	c.sees(alice, "b", "c", "d")
	withdraw()
	c.sees(alice, "c", "d")
	if _, err := alice.CoreV1().Namespaces().List(c.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("without asking for it, the list is not refused: %v", err)
	}
	if err := alice.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes").Param("visible", "true").Do(c.ctx).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("the parameter opens other resources: %v", err)
	}
	if err := alice.CoreV1().RESTClient().Delete().AbsPath("/api/v1/namespaces").Param("visible", "true").Do(c.ctx).Error(); err == nil || apierrors.IsInternalError(err) {
		t.Errorf("the parameter lets namespaces be deleted: %v", err)
	}
	all, err := c.admin.CoreV1().Namespaces().List(c.ctx, metav1.ListOptions{})
	c.must(err)
	for _, verb := range []string{"list", "create"} {
		c.role("pods-"+verb, rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}})
		c.binding("", "pods-"+verb, user(verb))
		for _, by := range []kubernetes.Interface{c.as(verb), c.admin} {
			if list, err := c.seen(by, metav1.ListOptions{}); err != nil || len(list.Items) != len(all.Items) {
				t.Errorf("%s with rights everywhere sees %d of %d namespaces, %v", verb, len(list.Items), len(all.Items), err)
			}
		}
	}
}

func TestAListOfVisibleNamespacesIsAListLikeAnyOther(t *testing.T) {
	c := startWithNamespaces(t)
	alice := c.as("alice")
	c.binding("a", "system:aggregate-to-view", user("alice"))
	before := c.sees(alice, "a")
	withdraw := c.binding("c", "system:aggregate-to-view", user("alice"))
	for _, test := range []struct {
		o    metav1.ListOptions
		want string
	}{
		{metav1.ListOptions{Limit: 1}, "a c"}, // there may be more than the limit, and nothing is left out
		{metav1.ListOptions{LabelSelector: "kubernetes.io/metadata.name=c"}, "c"},
		{metav1.ListOptions{FieldSelector: "metadata.name=c"}, "c"},
		{metav1.ListOptions{FieldSelector: "metadata.name=b"}, ""},
		{metav1.ListOptions{ResourceVersion: "0"}, "a c"},
		{metav1.ListOptions{ResourceVersion: before.ResourceVersion}, "a c"},
		{metav1.ListOptions{ResourceVersion: before.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}, "expired"},
	} {
		list, err := c.seen(alice, test.o)
		var names []string
		for _, n := range list.Items {
			names = append(names, n.Name)
		}
		if apierrors.IsResourceExpired(err) {
			names = []string{"expired"}
		} else if err != nil || list.Continue != "" {
			t.Errorf("%+v: %v, continued with %q", test.o, err, list.Continue)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%+v shows %q, want %q", test.o, got, test.want)
		}
	}
	everywhere := c.binding("", "system:aggregate-to-view", user("alice"))
	page, err := c.seen(alice, metav1.ListOptions{Limit: 2})
	if err != nil || len(page.Items) != 2 || page.Continue == "" {
		t.Fatalf("a page of all: %d, %v", len(page.Items), err)
	}
	if rest, err := c.seen(alice, metav1.ListOptions{Limit: 2, Continue: page.Continue}); err != nil || len(rest.Items) == 0 || rest.Items[0].Name == page.Items[0].Name {
		t.Errorf("the next page: %+v, %v", rest.Items, err)
	}
	everywhere()
	if _, err := c.seen(alice, metav1.ListOptions{Limit: 2, Continue: page.Continue}); !apierrors.IsResourceExpired(err) {
		t.Errorf("the next page after the rights were withdrawn: %v", err)
	}
	withdraw()
	c.sees(alice, "a")
}

// watching is an open watch of visible namespaces.
type watching struct {
	*cluster
	watch.Interface
}

func (c *cluster) watches(by kubernetes.Interface, o metav1.ListOptions) (*watching, error) {
	o.Watch = true
	w, err := by.CoreV1().RESTClient().Get().Resource("namespaces").VersionedParams(&o, scheme.ParameterCodec).SetHeader("Millrace-Namespaces", "visible").Watch(c.ctx)
	if err == nil {
		c.Cleanup(w.Stop)
	}
	return &watching{c, w}, err
}

// next is the next event, without bookmarks.
func (w *watching) next() (watch.Event, *corev1.Namespace) {
	w.Helper()
	for e := range w.ResultChan() {
		if n, ok := e.Object.(*corev1.Namespace); ok && e.Type != watch.Bookmark {
			return e, n
		} else if !ok {
			return e, nil
		}
	}
	w.Fatal("the watch has ended")
	return watch.Event{}, nil
}

func (w *watching) wants(all ...string) {
	w.Helper()
	for _, want := range all {
		if e, n := w.next(); n == nil || string(e.Type)+" "+n.Name != want {
			w.Errorf("the event is %v %+v, want %s", e.Type, e.Object, want)
		}
	}
}

func TestGrantsAndWithdrawalsAppearInAWatchOfVisibleNamespaces(t *testing.T) {
	c := startWithNamespaces(t)
	c.binding("a", "system:aggregate-to-view", group("dev"))
	w, err := c.watches(c.as("alice", "dev"), metav1.ListOptions{AllowWatchBookmarks: true})
	c.must(err)
	w.wants("ADDED a")
	fromB := c.binding("b", "system:aggregate-to-view", user("alice"))
	w.wants("ADDED b")
	again := c.binding("b", "system:aggregate-to-edit", group("dev")) // a second right to the same namespace is no news
	touch := func(name string) {
		t.Helper()
		n, err := c.admin.CoreV1().Namespaces().Get(c.ctx, name, metav1.GetOptions{})
		c.must(err)
		n.Annotations = map[string]string{"touched": n.ResourceVersion}
		_, err = c.admin.CoreV1().Namespaces().Update(c.ctx, n, metav1.UpdateOptions{})
		c.must(err)
	}
	touch("c") // which nobody is told of
	touch("b")
	w.wants("MODIFIED b")
	fromB()
	again()
	w.wants("DELETED b")
	touch("b")
	c.role("late", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"new"}})
	c.binding("", "late", user("alice"))
	c.namespace("new")
	w.wants("ADDED new")
	c.must(c.admin.RbacV1().ClusterRoles().Delete(c.ctx, "late", metav1.DeleteOptions{}))
	w.wants("DELETED new")
	all, err := c.admin.CoreV1().Namespaces().List(c.ctx, metav1.ListOptions{})
	c.must(err)
	everywhere := c.binding("", "system:aggregate-to-edit", user("alice"))
	var names []string
	for range len(all.Items) - 1 { // all but a
		e, n := w.next()
		if names = append(names, n.Name); e.Type != watch.Added {
			t.Errorf("a right everywhere makes %v of %s", e.Type, n.Name)
		}
	}
	if slices.Sort(names); !slices.Contains(names, "kube-system") || slices.Contains(names, "a") {
		t.Errorf("a right everywhere adds %v", names)
	}
	everywhere()
	for range len(all.Items) - 1 {
		if e, n := w.next(); e.Type != watch.Deleted || n.Name == "a" {
			t.Errorf("its withdrawal makes %v of %s", e.Type, n.Name)
		}
	}
	touch("a")
	w.wants("MODIFIED a")
}

func TestAWatchOfVisibleNamespacesGoesOnWhereItCan(t *testing.T) {
	c := startWithNamespaces(t)
	c.binding("a", "system:aggregate-to-view", user("alice"))
	list := c.sees(c.as("alice"), "a")
	c.must(c.admin.CoreV1().Namespaces().Delete(c.ctx, "b", metav1.DeleteOptions{}))
	n, err := c.admin.CoreV1().Namespaces().Get(c.ctx, "a", metav1.GetOptions{})
	c.must(err)
	n.Annotations = map[string]string{"x": "y"}
	_, err = c.admin.CoreV1().Namespaces().Update(c.ctx, n, metav1.UpdateOptions{})
	c.must(err)
	w, err := c.watches(c.as("alice"), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	c.must(err)
	w.wants("MODIFIED a")
	withdraw := c.binding("c", "system:aggregate-to-view", user("alice"))
	w.wants("ADDED c")
	withdraw()
	w.wants("DELETED c")
	if w, err = c.watches(c.as("alice"), metav1.ListOptions{ResourceVersion: list.ResourceVersion}); err == nil {
		var e watch.Event
		if e, _ = w.next(); e.Type == watch.Error {
			err = apierrors.FromObject(e.Object)
		}
	}
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from before changes of what is seen: %v", err)
	}
	if _, err := c.as("alice").CoreV1().Namespaces().Watch(c.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("without asking for it, the watch is not refused: %v", err)
	}
}

func TestAKindThatIsDefinedLaterMakesARightEverywhere(t *testing.T) {
	c := startWithNamespaces(t)
	c.role("widgets", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"widgets"}})
	c.binding("", "widgets", user("alice"))
	c.sees(c.as("alice"))
	w, err := c.watches(c.as("alice"), metav1.ListOptions{LabelSelector: "of=test"})
	c.must(err)
	const definition = `{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",` +
		`"names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,` +
		`"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
	c.must(c.admin.CoreV1().RESTClient().Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").
		Body([]byte(definition)).Do(c.ctx).Error())
	w.wants("ADDED a", "ADDED b", "ADDED c", "ADDED d")
}

func TestNobodyUsesTheVisibleNamespacesOfAnother(t *testing.T) {
	c := startWithNamespaces(t)
	c.binding("a", "system:aggregate-to-view", user("alice"))
	all, err := c.seen(c.admin, metav1.ListOptions{Limit: 1})
	c.must(err)
	if _, err := c.seen(c.as("alice"), metav1.ListOptions{Limit: 1, Continue: all.Continue}); !apierrors.IsResourceExpired(err) {
		t.Errorf("the token of an administrator: %v", err)
	}
	_, err = c.seen(c.as("system:anonymous", "system:unauthenticated"), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("the anonymous user: %v", err)
	}
	if err := c.as("alice").CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/b").Param("visible", "true").
		Do(c.ctx).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("a single namespace: %v", err)
	}
	if err := c.as("alice").CoreV1().RESTClient().Get().AbsPath("/api/v1/watch/namespaces/b").Param("visible", "true").
		Do(c.ctx).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("a watch of a single namespace: %v", err)
	}
	for _, o := range []metav1.ListOptions{{ResourceVersion: "0"}, {LabelSelector: "of=test"}, {FieldSelector: "metadata.name!=a"}} {
		list, err := c.seen(c.as("alice"), o)
		if err != nil || len(list.Items) > 1 || len(list.Items) == 1 && list.Items[0].Name != "a" {
			t.Errorf("%+v shows %+v, %v", o, list.Items, err)
		}
	}
}

// A stream writes a thousand events before it looks for other work.
func TestARightToManyNamespacesAppearsAndDisappearsWhole(t *testing.T) {
	c := startAPIServer(t)
	const many = 1100
	for i := range many {
		c.namespace(fmt.Sprintf("n-%04d", i))
	}
	for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		config := c.Config()
		config.Impersonate.UserName = "alice"
		config.AcceptContentTypes = accept
		w, err := c.watches(c.client(config), metav1.ListOptions{LabelSelector: "of=test"})
		c.must(err)
		withdraw := c.binding("", "system:aggregate-to-view", user("alice"))
		for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
			for i := range many {
				if e, n := w.next(); e.Type != want || n == nil || n.Name != fmt.Sprintf("n-%04d", i) {
					t.Fatalf("%s: event %d is %v of %+v, want %v", accept, i, e.Type, e.Object, want)
				}
			}
			if want == watch.Added {
				withdraw()
			}
		}
		w.Stop()
	}
}

func TestTablesAndMetadataShowGrantsAndWithdrawals(t *testing.T) {
	c := startWithNamespaces(t)
	for _, as := range []string{"Table", "PartialObjectMetadata"} {
		config := c.Config()
		config.Impersonate.UserName = "alice"
		body, err := c.client(config).CoreV1().RESTClient().Get().Resource("namespaces").Param("visible", "true").Param("watch", "true").
			SetHeader("Accept", "application/json;as="+as+";g=meta.k8s.io;v=v1").Stream(c.ctx)
		c.must(err)
		withdraw := c.binding("b", "system:aggregate-to-view", user("alice"))
		lines := bufio.NewScanner(body)
		for _, want := range []string{"ADDED", "DELETED"} {
			if !lines.Scan() || !strings.HasPrefix(lines.Text(), `{"type":"`+want) || !strings.Contains(lines.Text(), `"kind":"`+as) ||
				!strings.Contains(lines.Text(), `"name":"b"`) {
				t.Errorf("%s: the event is %s, want %s", as, lines.Text(), want)
			}
			if want == "ADDED" {
				withdraw()
			}
		}
		c.must(body.Close())
	}
}

func TestWithoutRolesOnlyThoseSeeNamespacesWhoMayListThem(t *testing.T) {
	c := start(t, millrace.Options{Controllers: []string{}, NoScheduler: true, Authorization: []string{"AlwaysDeny"}})
	c.sees(c.as("alice"))
	if list, err := c.seen(c.admin, metav1.ListOptions{}); err != nil || len(list.Items) == 0 {
		t.Errorf("the administrator sees %d namespaces, %v", len(list.Items), err)
	}
}
