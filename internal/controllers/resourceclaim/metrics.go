package resourceclaim

import resourcev1 "k8s.io/api/resource/v1"

// Metrics is told what the loop does.
type Metrics interface {
	// Created is called when a claim was made for a pod, or could not be made. admin says whether it asks for the
	// access of administrators.
	Created(admin bool, err error)
	// Count is given the function that counts the claims there are.
	Count(count func() map[Sort]int)
}

// Sort is what claims are counted by.
type Sort struct {
	Admin, Allocated bool
	// Source is what made the claim: "resource_claim_template", "extended_resource", or nothing if that is not known.
	Source string
}

type noMetrics struct{}

func (noMetrics) Created(bool, error)       {}
func (noMetrics) Count(func() map[Sort]int) {}

// count counts the claims.
func (r *controller) count() map[Sort]int {
	counts := map[Sort]int{}
	for claim := range r.claims.List() {
		counts[sortOf(claim)]++
	}
	return counts
}

func sortOf(claim *resourcev1.ResourceClaim) Sort {
	s := Sort{Admin: admin(&claim.Spec), Allocated: claim.Status.Allocation != nil}
	if claim.Annotations[madeFor] != "" {
		s.Source = "resource_claim_template"
	} else if claim.Annotations[extended] == "true" {
		s.Source = "extended_resource"
	}
	return s
}
