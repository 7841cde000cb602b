package rules

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// scene is one node with its pods, and a pod to place.
type scene struct {
	node corev1.Node
	runs []corev1.PodSpec
	pod  corev1.PodSpec
}

func (s *scene) build() (*cluster.Demand, *cluster.Node) {
	var in cluster.Interner
	var state cluster.State
	if s.node.Name == "" {
		s.node.Name = "node"
	}
	node, _ := state.SetNode(&s.node)
	for i, spec := range s.runs {
		spec.NodeName = s.node.Name
		state.Observe(in.Pod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i))}, Spec: spec}))
	}
	return in.Shape(&corev1.Pod{Spec: s.pod}).Demand, node
}

func offers(pairs ...string) corev1.Node {
	return corev1.Node{Status: corev1.NodeStatus{Allocatable: list(pairs...)}}
}

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func asks(pairs ...string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{
		Image: "app", Resources: corev1.ResourceRequirements{Requests: list(pairs...)},
	}}}
}

func tainted(taints ...corev1.Taint) corev1.Node {
	return corev1.Node{Spec: corev1.NodeSpec{Taints: taints}}
}

func labelled(pairs ...string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	for i := 0; i < len(pairs); i += 2 {
		n.Labels[pairs[i]] = pairs[i+1]
	}
	return n
}

func requires(terms ...corev1.NodeSelectorTerm) corev1.PodSpec {
	return corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}}
}

func expression(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func field(operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: operator, Values: values}}}
}

func tolerating(tolerations ...corev1.Toleration) corev1.PodSpec {
	return corev1.PodSpec{Tolerations: tolerations}
}

func hostPort(ip string, protocol corev1.Protocol, port int32) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{
		Ports: []corev1.ContainerPort{{HostIP: ip, Protocol: protocol, HostPort: port}},
	}}}
}

func TestFilters(t *testing.T) {
	const (
		wrongNode = "node(s) didn't match Pod's node affinity/selector"
		taintedBy = "node(s) had untolerated taint(s)"
		cordoned  = "node(s) were unschedulable"
		taken     = "node(s) didn't have free ports for the requested pod ports"
	)
	gpu := corev1.Taint{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}
	cordonedNode := corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}
	for _, c := range []struct {
		name    string
		filter  plugin.Filter
		scene   scene
		reasons []string
		lasting bool
	}{
		{name: "enough of everything", filter: NewResources(ResourcesOptions{}),
			scene: scene{node: offers("cpu", "1", "memory", "1Gi", "pods", "1"), pod: asks("cpu", "1", "memory", "1Gi")}},
		{name: "too little of two", filter: NewResources(ResourcesOptions{}),
			scene:   scene{node: offers("cpu", "2", "memory", "2Gi", "pods", "9"), runs: []corev1.PodSpec{asks("cpu", "1500m", "memory", "1536Mi")}, pod: asks("cpu", "1", "memory", "1Gi")},
			reasons: []string{"Insufficient cpu", "Insufficient memory"}},
		{name: "more than the node ever had", filter: NewResources(ResourcesOptions{}),
			scene: scene{node: offers("cpu", "1", "pods", "9"), pod: asks("cpu", "2")}, reasons: []string{"Insufficient cpu"}, lasting: true},
		{name: "too many pods", filter: NewResources(ResourcesOptions{}),
			scene:   scene{node: offers("cpu", "4", "pods", "1"), runs: []corev1.PodSpec{asks()}, pod: asks()},
			reasons: []string{"Too many pods"}},
		{name: "a device that the node lacks", filter: NewResources(ResourcesOptions{}),
			scene:   scene{node: offers("cpu", "4", "pods", "9"), pod: asks("example.com/gpu", "1")},
			reasons: []string{"Insufficient example.com/gpu"}, lasting: true},
		{name: "a device that is taken", filter: NewResources(ResourcesOptions{}),
			scene:   scene{node: offers("example.com/gpu", "1", "pods", "9"), runs: []corev1.PodSpec{asks("example.com/gpu", "1")}, pod: asks("example.com/gpu", "1")},
			reasons: []string{"Insufficient example.com/gpu"}},
		{name: "ephemeral storage", filter: NewResources(ResourcesOptions{}),
			scene:   scene{node: offers("ephemeral-storage", "1Gi", "pods", "9"), pod: asks("ephemeral-storage", "2Gi")},
			reasons: []string{"Insufficient ephemeral-storage"}, lasting: true},
		{name: "asking for nothing fits an overfull node", filter: NewResources(ResourcesOptions{}),
			scene: scene{node: offers("cpu", "1", "pods", "9"), runs: []corev1.PodSpec{asks("cpu", "2")}, pod: asks()}},

		{name: "node selector", filter: NodeAffinity{},
			scene: scene{node: labelled("disk", "hdd"), pod: corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}}}, reasons: []string{wrongNode}, lasting: true},
		{name: "one of two terms is enough", filter: NodeAffinity{},
			scene: scene{node: labelled("a", "1"), pod: requires(expression("a", "In", "2"), expression("a", "Exists"))}},
		{name: "greater than", filter: NodeAffinity{}, scene: scene{node: labelled("cores", "8"), pod: requires(expression("cores", "Gt", "4"))}},
		{name: "less than", filter: NodeAffinity{}, scene: scene{node: labelled("cores", "8"), pod: requires(expression("cores", "Lt", "8"))},
			reasons: []string{wrongNode}, lasting: true},
		{name: "not in, without the label", filter: NodeAffinity{}, scene: scene{node: labelled(), pod: requires(expression("a", "NotIn", "1"))}},
		{name: "must not exist", filter: NodeAffinity{}, scene: scene{node: labelled("a", "1"), pod: requires(expression("a", "DoesNotExist"))},
			reasons: []string{wrongNode}, lasting: true},
		{name: "an empty term matches nothing", filter: NodeAffinity{}, scene: scene{pod: requires(corev1.NodeSelectorTerm{})},
			reasons: []string{wrongNode}, lasting: true},
		{name: "no terms match nothing", filter: NodeAffinity{}, scene: scene{pod: requires()}, reasons: []string{wrongNode}, lasting: true},
		{name: "by name", filter: NodeAffinity{}, scene: scene{pod: requires(field("In", "node"))}},
		{name: "by another name", filter: NodeAffinity{}, scene: scene{pod: requires(field("NotIn", "node"))}, reasons: []string{wrongNode}, lasting: true},

		{name: "a taint", filter: Taints{}, scene: scene{node: tainted(gpu)}, reasons: []string{taintedBy}, lasting: true},
		{name: "a tolerated taint", filter: Taints{}, scene: scene{node: tainted(gpu), pod: tolerating(corev1.Toleration{Key: "gpu", Value: "yes"})}},
		{name: "tolerated with another value", filter: Taints{}, scene: scene{node: tainted(gpu), pod: tolerating(corev1.Toleration{Key: "gpu", Value: "no"})},
			reasons: []string{taintedBy}, lasting: true},
		{name: "tolerated for another effect", filter: Taints{},
			scene:   scene{node: tainted(gpu), pod: tolerating(corev1.Toleration{Key: "gpu", Operator: "Exists", Effect: "NoExecute"})},
			reasons: []string{taintedBy}, lasting: true},
		{name: "everything is tolerated", filter: Taints{}, scene: scene{node: tainted(gpu), pod: tolerating(corev1.Toleration{Operator: "Exists"})}},
		{name: "tolerated up to a value", filter: Taints{},
			scene: scene{node: tainted(corev1.Taint{Key: "age", Value: "5", Effect: "NoSchedule"}), pod: tolerating(corev1.Toleration{Key: "age", Operator: "Lt", Value: "6"})}},
		{name: "tolerated from a value", filter: Taints{},
			scene:   scene{node: tainted(corev1.Taint{Key: "age", Value: "5", Effect: "NoSchedule"}), pod: tolerating(corev1.Toleration{Key: "age", Operator: "Gt", Value: "5"})},
			reasons: []string{taintedBy}, lasting: true},
		{name: "a taint that only asks", filter: Taints{}, scene: scene{node: tainted(corev1.Taint{Key: "a", Effect: "PreferNoSchedule"})}},

		{name: "a cordoned node", filter: Unschedulable{}, scene: scene{node: cordonedNode}, reasons: []string{cordoned}, lasting: true},
		{name: "a cordoned node that is tolerated", filter: Unschedulable{},
			scene: scene{node: cordonedNode, pod: tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: "Exists"})}},

		{name: "a port that is taken", filter: Ports{}, scene: scene{runs: []corev1.PodSpec{hostPort("", "TCP", 80)}, pod: hostPort("", "", 80)}, reasons: []string{taken}},
		{name: "the same port of another protocol", filter: Ports{}, scene: scene{runs: []corev1.PodSpec{hostPort("", "TCP", 53)}, pod: hostPort("", "UDP", 53)}},
		{name: "the same port of another address", filter: Ports{}, scene: scene{runs: []corev1.PodSpec{hostPort("10.0.0.1", "TCP", 80)}, pod: hostPort("10.0.0.2", "TCP", 80)}},
		{name: "all addresses take one", filter: Ports{}, scene: scene{runs: []corev1.PodSpec{hostPort("0.0.0.0", "TCP", 80)}, pod: hostPort("10.0.0.2", "TCP", 80)}, reasons: []string{taken}},
	} {
		t.Run(c.name, func(t *testing.T) {
			demand, node := c.scene.build()
			v := c.filter.Filter(demand, node)
			if v == nil {
				v = &plugin.Verdict{Plugin: c.filter.Name()}
			}
			if !slices.Equal(v.Reasons, c.reasons) || v.Lasting != c.lasting || v.Plugin != c.filter.Name() {
				t.Errorf("verdict %+v, want %q, lasting %v", *v, c.reasons, c.lasting)
			}
		})
	}
}

func TestScores(t *testing.T) {
	prefers := corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 10, Preference: expression("a", "In", "1")},
			{Weight: 5, Preference: expression("b", "Exists")},
			{Weight: 80, Preference: corev1.NodeSelectorTerm{}},
		},
	}}}
	avoid := func(key string) corev1.Taint { return corev1.Taint{Key: key, Effect: "PreferNoSchedule"} }
	for _, c := range []struct {
		name  string
		score plugin.Score
		scene scene
		want  int64
	}{
		{"half of both is left", NewResources(ResourcesOptions{}), scene{node: offers("cpu", "4", "memory", "4Gi"), runs: []corev1.PodSpec{asks("cpu", "1", "memory", "1Gi")}, pod: asks("cpu", "1", "memory", "1Gi")}, 50},
		{"a quarter and three quarters", NewResources(ResourcesOptions{}), scene{node: offers("cpu", "4", "memory", "4Gi"), pod: asks("cpu", "3", "memory", "1Gi")}, 50},
		{"nothing asked counts a little", NewResources(ResourcesOptions{}), scene{node: offers("cpu", "1", "memory", "2000Mi"), pod: asks()}, 90},
		{"balance is kept", Balance{}, scene{node: offers("cpu", "4", "memory", "4Gi"), pod: asks("cpu", "1", "memory", "1Gi")}, 75},
		{"balance is spoiled", Balance{}, scene{node: offers("cpu", "4", "memory", "4Gi"), pod: asks("cpu", "4", "memory", "0")}, 50},
		{"balance is mended", Balance{}, scene{node: offers("cpu", "4", "memory", "4Gi"), runs: []corev1.PodSpec{asks("cpu", "4")}, pod: asks("memory", "4Gi")}, 100},
		{"preferred terms add up", PreferredNodes{}, scene{node: labelled("a", "1", "b", "x"), pod: prefers}, 15},
		{"an empty preference counts nothing", PreferredNodes{}, scene{node: labelled("a", "2"), pod: prefers}, 0},
		{"taints to avoid", Taints{}, scene{node: tainted(avoid("a"), avoid("b")), pod: tolerating(corev1.Toleration{Key: "b", Operator: "Exists"})}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			demand, node := c.scene.build()
			if got := c.score.Score(demand, node); got != c.want {
				t.Errorf("score %d, want %d", got, c.want)
			}
		})
	}
}
