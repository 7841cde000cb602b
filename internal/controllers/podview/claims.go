package podview

import (
	"iter"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/demand"
)

// byClaim finds pods by the claims that they use.
var byClaim = informer.NewIndex(func(p *Pod) []string {
	var keys []string
	for _, claim := range p.Claims {
		keys = append(keys, p.Namespace+"/"+claim)
	}
	return keys
})

// IndexClaims prepares an informer for [WithClaim].
func IndexClaims(pods *informer.Shared[*Pod]) { pods.AddIndex(byClaim) }

// WithClaim ranges over the pods that use a claim, in any phase.
func WithClaim(pods *informer.Shared[*Pod], namespace, claim string) iter.Seq[*Pod] {
	return pods.By(byClaim, namespace+"/"+claim)
}

func (p *Pod) volumes(pod *corev1.Pod) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if claim := demand.Claim(pod.Name, v); claim != "" {
			p.Claims = append(p.Claims, claim)
		}
		p.Ephemeral = p.Ephemeral || v.Ephemeral != nil
	}
}
