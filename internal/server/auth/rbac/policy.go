package rbac

import (
	_ "embed"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// policyText is what kube-apiserver 1.37 starts a cluster with: one line for each role and each binding, and below a
// role one line for each rule, with its verbs and its resources or paths.
//
//go:embed policy.txt
var policyText string

// Policy is the roles and bindings that every cluster has. Bindings without a subject are there to be filled by others.
type Policy struct {
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
}

const (
	bootstrapping = "kubernetes.io/bootstrapping"
	aggregateTo   = "rbac.authorization.k8s.io/aggregate-to-"
)

// DefaultPolicy is that of kube-apiserver 1.37.
func DefaultPolicy() *Policy {
	p := &policyReader{}
	for line := range strings.Lines(policyText) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case line[0] == ' ':
			*p.rules = append(*p.rules, parseRule(words))
		case words[0] == "role":
			p.role(words[1], words[2:])
		case words[0] == "binding":
			p.binding(words[1], words[2:])
		default:
			panic(fmt.Sprintf("rbac: a line of the policy begins with %q", words[0]))
		}
	}
	return &p.Policy
}

type policyReader struct {
	Policy
	rules *[]rbacv1.PolicyRule // of the last role
}

func meta(named string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: named, Labels: map[string]string{bootstrapping: "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}

func (p *policyReader) role(named string, words []string) {
	o := &rbacv1.ClusterRole{ObjectMeta: meta(named)}
	for _, w := range words {
		switch key, value, _ := strings.Cut(w, "="); key {
		case "namespace":
			r := &rbacv1.Role{ObjectMeta: o.ObjectMeta}
			r.Namespace = value
			p.Roles, p.rules = append(p.Roles, r), &r.Rules
			return
		case "in":
			o.Labels[aggregateTo+value] = "true"
		case "gathers":
			o.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{aggregateTo + value: "true"}}}}
		}
	}
	p.ClusterRoles, p.rules = append(p.ClusterRoles, o), &o.Rules
}

// parseRule reads "get,list pods,pods/log group=,apps names=a,b" or "get paths=/healthz". Without a group it is the
// core group.
func parseRule(words []string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{Verbs: strings.Split(words[0], ","), APIGroups: []string{""}}
	for _, w := range words[1:] {
		key, value, keyed := strings.Cut(w, "=")
		list := strings.Split(value, ",")
		switch {
		case !keyed:
			r.Resources = strings.Split(w, ",")
		case key == "group":
			r.APIGroups = list
		case key == "names":
			r.ResourceNames = list
		case key == "paths":
			r.NonResourceURLs, r.APIGroups = list, nil
		}
	}
	return r
}

func (p *policyReader) binding(named string, words []string) {
	var namespace string
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole"}
	var subjects []rbacv1.Subject
	for _, w := range words {
		switch key, value, _ := strings.Cut(w, "="); key {
		case "namespace":
			namespace = value
		case "of":
			ref.Name = value
		case "kind":
			ref.Kind = value
		case "user":
			subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: value})
		case "group":
			subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: value})
		case "account":
			at, account, _ := strings.Cut(value, "/")
			subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: at, Name: account})
		}
	}
	m := meta(named)
	if m.Namespace = namespace; namespace != "" {
		p.RoleBindings = append(p.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: m, RoleRef: ref, Subjects: subjects})
		return
	}
	p.ClusterRoleBindings = append(p.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: m, RoleRef: ref, Subjects: subjects})
}
