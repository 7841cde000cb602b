package clusterrole_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/clusterrole"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/millracetest"
)

func role(name, label string, resources ...string) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"to": label}}}
	for _, resource := range resources {
		r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}})
	}
	return r
}

func aggregate(name, label, of string) *rbacv1.ClusterRole {
	r := role(name, label)
	r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"to": of}}}}
	return r
}

// has returns the resources in the rules of a role.
func has(t *testing.T, s *looptest.Server, name string) string {
	t.Helper()
	r, err := s.Kube.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, rule := range r.Rules {
		all = append(all, rule.Resources...)
	}
	return strings.Join(all, " ")
}

func TestRolesHaveTheRulesOfThoseThatTheyAggregate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Start(t, s.Clients(), clusterrole.Entry)
		for _, r := range []*rbacv1.ClusterRole{
			role("b", "mine-view", "services", "pods"), role("a", "mine-view", "pods"), role("c", "other", "nodes"), aggregate("reads", "mine-edit", "mine-view"), aggregate("writes", "", "mine-edit"),
		} {
			looptest.Create(s, "clusterroles", "", r)
		}
		expect := func(view, edit string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if v, e := has(t, s, "reads"), has(t, s, "writes"); v != view || e != edit {
				t.Errorf("reads has %q, writes %q; expected %q and %q", v, e, view, edit)
			}
		}
		expect("pods services", "pods services")
		reads, err := s.Kube.RbacV1().ClusterRoles().Get(t.Context(), "reads", metav1.GetOptions{})
		if err != nil || !slices.ContainsFunc(reads.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
			return m.Manager == "clusterrole-aggregation-controller" && m.Operation == metav1.ManagedFieldsOperationApply
		}) {
			t.Errorf("the rules are not applied: %v, %v", reads.ManagedFields, err)
		}
		looptest.Edit(s, "clusterroles", "", "c", func(r *rbacv1.ClusterRole) { r.Labels["to"] = "mine-view" })
		expect("pods services nodes", "pods services nodes")
		_ = s.Kube.RbacV1().ClusterRoles().Delete(t.Context(), "b", metav1.DeleteOptions{})
		expect("pods nodes", "pods nodes")
		looptest.Edit(s, "clusterroles", "", "reads", func(r *rbacv1.ClusterRole) { r.Rules = nil })
		expect("pods nodes", "pods nodes")
		for _, name := range []string{"a", "c"} {
			_ = s.Kube.RbacV1().ClusterRoles().Delete(t.Context(), name, metav1.DeleteOptions{})
		}
		expect("", "")
	})
}

// Loops crash at any write, watches are cut or delayed: in the end the rules are those of the aggregated roles.
func TestWhateverCrashesTheRulesFollow(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				s := looptest.New(t, millracetest.API(t))
				lives := looptest.StartLives(t, s, rand.New(rand.NewPCG(seed, 2)), clusterrole.Entry)
				looptest.Create(s, "clusterroles", "", aggregate("all", "", "view"))
				looptest.Create(s, "clusterroles", "", role("r", "view", "r0"))
				last := ""
				for i := 0; i < 60 || lives.Deaths() == 0; i++ {
					last = fmt.Sprint("r", i)
					looptest.Edit(s, "clusterroles", "", "r", func(r *rbacv1.ClusterRole) { r.Rules[0].Resources = []string{last} })
					switch random.IntN(4) {
					case 0:
						s.DropWatches()
					case 1:
						s.HoldWatches(random.IntN(2) == 0)
					}
					time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
				}
				s.HoldWatches(false)
				lives.Calm()
				time.Sleep(10 * time.Minute)
				if got := has(t, s, "all"); got != last {
					t.Errorf("the rules are %s, expected %s", got, last)
				}
			})
		})
	}
}
