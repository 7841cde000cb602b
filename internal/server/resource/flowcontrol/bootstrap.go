package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	exempt   = "exempt"
	catchAll = "catch-all"
)

// Bootstrap are the objects of the group that every cluster has.
type Bootstrap struct {
	Levels  []*flowcontrolv1.PriorityLevelConfiguration
	Schemas []*flowcontrolv1.FlowSchema
}

// Mandatory returns the objects without which requests would match no level. They cannot be changed.
func Mandatory() Bootstrap { return Bootstrap{mandatoryLevels(), mandatorySchemas()} }

// Suggested returns the objects of a new cluster, as in kube-apiserver 1.37. Users may change them permanently.
func Suggested() Bootstrap {
	user, namespace := flowcontrolv1.FlowDistinguisherMethodByUserType, flowcontrolv1.FlowDistinguisherMethodByNamespaceType
	everybody := groups("system:unauthenticated", "system:authenticated")
	all := flowcontrolv1.PolicyRulesWithSubjects{ResourceRules: resources("*", "*", true, "*"), NonResourceRules: paths("*", "*")}
	leases := resources("coordination.k8s.io", "leases", false, "get", "create", "update")
	return Bootstrap{
		Levels: []*flowcontrolv1.PriorityLevelConfiguration{
			queued("system", 30, 33, 64, 6), queued("node-high", 40, 25, 64, 6), queued("leader-election", 10, 0, 16, 4),
			queued("workload-high", 40, 50, 128, 6), queued("workload-low", 100, 90, 128, 6), queued("global-default", 20, 50, 128, 6),
		},
		Schemas: []*flowcontrolv1.FlowSchema{
			flow("system-nodes", "system", 500, user, all, groups("system:nodes")),
			flow("system-node-high", "node-high", 400, user, flowcontrolv1.PolicyRulesWithSubjects{ResourceRules: append(
				[]flowcontrolv1.ResourcePolicyRule{rule("", true, []string{"nodes", "nodes/status"}, "*")},
				resources("coordination.k8s.io", "leases", false, "*")...)}, groups("system:nodes")),
			flow("probes", exempt, 2, "", flowcontrolv1.PolicyRulesWithSubjects{NonResourceRules: paths("get", "/healthz", "/readyz", "/livez")}, everybody),
			flow("system-leader-election", "leader-election", 100, user, flowcontrolv1.PolicyRulesWithSubjects{ResourceRules: leases},
				append(users("system:kube-controller-manager", "system:kube-scheduler"), systemAccounts())),
			flow("kube-controller-manager", "workload-high", 800, namespace, all, users("system:kube-controller-manager")),
			flow("kube-scheduler", "workload-high", 800, namespace, all, users("system:kube-scheduler")),
			flow("kube-system-service-accounts", "workload-high", 900, namespace, all, []flowcontrolv1.Subject{systemAccounts()}),
			flow("service-accounts", "workload-low", 9000, user, all, groups("system:serviceaccounts")),
			flow("global-default", "global-default", 9900, user, all, everybody),
		},
	}
}

func mandatoryLevels() []*flowcontrolv1.PriorityLevelConfiguration {
	first := priority(exempt, flowcontrolv1.PriorityLevelEnablementExempt)
	first.Spec.Exempt = &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: new(int32(0)), LendablePercent: new(int32(0))}
	last := priority(catchAll, flowcontrolv1.PriorityLevelEnablementLimited)
	last.Spec.Limited = &flowcontrolv1.LimitedPriorityLevelConfiguration{
		NominalConcurrencyShares: new(int32(5)), LendablePercent: new(int32(0)),
		LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
	}
	return []*flowcontrolv1.PriorityLevelConfiguration{last, first}
}

func mandatorySchemas() []*flowcontrolv1.FlowSchema {
	all := flowcontrolv1.PolicyRulesWithSubjects{ResourceRules: resources("*", "*", true, "*"), NonResourceRules: paths("*", "*")}
	return []*flowcontrolv1.FlowSchema{
		flow(exempt, exempt, 1, "", all, groups("system:masters")),
		flow(catchAll, catchAll, flowcontrolv1.FlowSchemaMaxMatchingPrecedence, flowcontrolv1.FlowDistinguisherMethodByUserType, all,
			groups("system:unauthenticated", "system:authenticated")),
	}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Annotations: map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}}
}

func priority(name string, t flowcontrolv1.PriorityLevelEnablement) *flowcontrolv1.PriorityLevelConfiguration {
	return &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: meta(name), Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: t}}
}

// queued returns a level whose requests wait in queues.
func queued(name string, shares, lendable, queues, hand int32) *flowcontrolv1.PriorityLevelConfiguration {
	l := priority(name, flowcontrolv1.PriorityLevelEnablementLimited)
	l.Spec.Limited = &flowcontrolv1.LimitedPriorityLevelConfiguration{
		NominalConcurrencyShares: &shares, LendablePercent: &lendable,
		LimitResponse: flowcontrolv1.LimitResponse{
			Type:    flowcontrolv1.LimitResponseTypeQueue,
			Queuing: &flowcontrolv1.QueuingConfiguration{Queues: queues, HandSize: hand, QueueLengthLimit: 50},
		},
	}
	return l
}

// flow returns a schema with one rule.
func flow(name, level string, precedence int32, by flowcontrolv1.FlowDistinguisherMethodType, r flowcontrolv1.PolicyRulesWithSubjects, of []flowcontrolv1.Subject) *flowcontrolv1.FlowSchema {
	r.Subjects = of
	s := &flowcontrolv1.FlowSchema{ObjectMeta: meta(name), Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level},
		MatchingPrecedence:         precedence, Rules: []flowcontrolv1.PolicyRulesWithSubjects{r},
	}}
	if by != "" {
		s.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: by}
	}
	return s
}

func groups(names ...string) []flowcontrolv1.Subject {
	var out []flowcontrolv1.Subject
	for _, n := range names {
		out = append(out, flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: n}})
	}
	return out
}

func users(names ...string) []flowcontrolv1.Subject {
	var out []flowcontrolv1.Subject
	for _, n := range names {
		out = append(out, flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: n}})
	}
	return out
}

func systemAccounts() flowcontrolv1.Subject {
	return flowcontrolv1.Subject{
		Kind:           flowcontrolv1.SubjectKindServiceAccount,
		ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Name: flowcontrolv1.NameAll, Namespace: metav1.NamespaceSystem},
	}
}

func rule(group string, cluster bool, of []string, verbs ...string) flowcontrolv1.ResourcePolicyRule {
	return flowcontrolv1.ResourcePolicyRule{
		Verbs: verbs, APIGroups: []string{group}, Resources: of, ClusterScope: cluster, Namespaces: []string{flowcontrolv1.NamespaceEvery},
	}
}

func resources(group, resource string, cluster bool, verbs ...string) []flowcontrolv1.ResourcePolicyRule {
	return []flowcontrolv1.ResourcePolicyRule{rule(group, cluster, []string{resource}, verbs...)}
}

func paths(verb string, of ...string) []flowcontrolv1.NonResourcePolicyRule {
	return []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{verb}, NonResourceURLs: of}}
}
