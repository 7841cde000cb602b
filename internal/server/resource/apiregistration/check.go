package apiregistration

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	checks "github.com/millrace/millrace/internal/server/resource/check"
)

const (
	maxGroupPriority   = 20000
	maxVersionPriority = 1000
)

// LocalCondition says that the API server itself serves a group.
func LocalCondition() v1.APIServiceCondition {
	return v1.APIServiceCondition{
		Type: v1.Available, Status: v1.ConditionTrue, LastTransitionTime: metav1.Time{Time: time.Now()},
		Reason: "Local", Message: "Local APIServices are always available",
	}
}

// noteLocal makes groups of the API server itself available from the start.
func noteLocal(s *v1.APIService) {
	if s.Spec.Service == nil {
		s.Status.Conditions = []v1.APIServiceCondition{LocalCondition()}
	}
}

func check(s *v1.APIService) field.ErrorList {
	spec := field.NewPath("spec")
	errs := checkName(s)
	if s.Spec.Group == "" && s.Spec.Version != "v1" {
		errs = append(errs, field.Required(spec.Child("group"), "only v1 may have an empty group and it better be legacy kube"))
	}
	if s.Spec.Group != "" {
		errs = append(errs, checks.Subdomain(s.Spec.Group, spec.Child("group"))...)
	}
	errs = append(errs, checks.Invalid(spec.Child("version"), s.Spec.Version, validation.IsDNS1035Label(s.Spec.Version))...)
	if n := s.Spec.GroupPriorityMinimum; n <= 0 || n > maxGroupPriority {
		errs = append(errs, field.Invalid(spec.Child("groupPriorityMinimum"), n, fmt.Sprintf("must be positive and less than %d", maxGroupPriority)))
	}
	if n := s.Spec.VersionPriority; n <= 0 || n > maxVersionPriority {
		errs = append(errs, field.Invalid(spec.Child("versionPriority"), n, fmt.Sprintf("must be positive and less than %d", maxVersionPriority)))
	}
	if s.Spec.Service == nil {
		return append(errs, checkLocal(&s.Spec, spec)...)
	}
	return append(errs, checkRemote(&s.Spec, spec)...)
}

// checkName requires the name version.group.
func checkName(s *v1.APIService) field.ErrorList {
	at := field.NewPath("metadata", "name")
	if problems := content.IsPathSegmentName(s.Name); len(problems) > 0 {
		return checks.Invalid(at, s.Name, problems)
	}
	if want := s.Spec.Version + "." + s.Spec.Group; s.Name != want {
		return field.ErrorList{field.Invalid(at, s.Name, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", want))}
	}
	return nil
}

func checkLocal(s *v1.APIServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n := len(s.CABundle); n > 0 {
		errs = append(errs, field.Invalid(path.Child("caBundle"), fmt.Sprintf("%d bytes", n), "local APIServices may not have a caBundle"))
	}
	if s.InsecureSkipTLSVerify {
		errs = append(errs, field.Invalid(path.Child("insecureSkipTLSVerify"), true, "local APIServices may not have insecureSkipTLSVerify"))
	}
	return errs
}

func checkRemote(s *v1.APIServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("service")
	if s.Service.Namespace == "" {
		errs = append(errs, field.Required(at.Child("namespace"), ""))
	}
	if s.Service.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	if problems := validation.IsValidPortNum(int(*s.Service.Port)); len(problems) > 0 {
		errs = append(errs, field.Invalid(at.Child("port"), *s.Service.Port, "port is not valid: "+strings.Join(problems, ", ")))
	}
	if s.InsecureSkipTLSVerify && len(s.CABundle) > 0 {
		errs = append(errs, field.Invalid(path.Child("insecureSkipTLSVerify"), true, "may not be true if caBundle is present"))
	}
	return errs
}

func checkStatus(s *v1.APIServiceStatus) field.ErrorList {
	var errs field.ErrorList
	for i, c := range s.Conditions {
		errs = append(errs, checks.OneOf(c.Status, field.NewPath("status", "conditions").Index(i).Child("status"), v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown)...)
	}
	return errs
}
