package podspec

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/millrace/millrace/internal/server/resource/quote"
)

func quoted(v any) quote.Value { return quote.Of(v) }

// security checks a container's security context.
func (x *examiner) security(p fieldPath, s *corev1.SecurityContext) {
	if s == nil {
		return
	}
	at := p.child("securityContext")
	if isPrivileged(s) && !x.opt.AllowPrivileged {
		x.forbidden(at.child("privileged"), "disallowed by cluster policy")
	}
	x.userID(at, "runAsUser", s.RunAsUser)
	x.groupID(at, "runAsGroup", s.RunAsGroup)
	if s.ProcMount != nil {
		c := at.child("procMount")
		oneOf(&x.findings, c, *s.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		if *s.ProcMount == corev1.UnmaskedProcMount && (x.spec.HostUsers == nil || *x.spec.HostUsers) {
			x.invalid(c, *s.ProcMount, "`hostUsers` must be false to use `Unmasked`")
		}
	}
	x.seccomp(at, s.SeccompProfile)
	if e := s.AllowPrivilegeEscalation; e != nil && !*e {
		if isPrivileged(s) {
			x.invalid(at, quoted(s), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
		}
		if s.Capabilities != nil {
			for _, c := range s.Capabilities.Add {
				if c == "CAP_SYS_ADMIN" {
					x.invalid(at, quoted(s), "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
				}
			}
		}
	}
	x.windows(at, s.WindowsOptions)
	x.appArmor(at, s.AppArmorProfile)
}

func (x *examiner) userID(p fieldPath, name string, id *int64) {
	if id == nil {
		return
	}
	if messages := validation.IsValidUserID(*id); messages != nil {
		x.invalidAll(p.child(name), *id, messages)
	}
}

func (x *examiner) groupID(p fieldPath, name string, id *int64) {
	if id == nil {
		return
	}
	if messages := validation.IsValidGroupID(*id); messages != nil {
		x.invalidAll(p.child(name), *id, messages)
	}
}

func (x *examiner) seccomp(p fieldPath, s *corev1.SeccompProfile) {
	if s == nil {
		return
	}
	at := p.child("seccompProfile")
	kind, local := at.child("type"), at.child("localhostProfile")
	if s.Type == "" {
		x.required(kind, "type is required when seccompProfile is set")
	} else {
		oneOf(&x.findings, kind, s.Type, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	}
	switch {
	case s.Type == corev1.SeccompProfileTypeLocalhost && s.LocalhostProfile == nil:
		x.required(local, "must be set when seccomp type is Localhost")
	case s.Type == corev1.SeccompProfileTypeLocalhost:
		x.descendingPath(local, *s.LocalhostProfile)
	case s.LocalhostProfile != nil:
		x.invalid(local, quoted(s), "can only be set when seccomp type is Localhost")
	}
}

const longestAppArmor = 4095

func (x *examiner) appArmor(p fieldPath, a *corev1.AppArmorProfile) {
	if a == nil {
		return
	}
	at := p.child("appArmorProfile")
	kind, local := at.child("type"), at.child("localhostProfile")
	switch a.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		switch {
		case a.LocalhostProfile == nil || strings.TrimSpace(*a.LocalhostProfile) == "":
			x.required(local, "must be set when AppArmor type is Localhost")
		case strings.TrimSpace(*a.LocalhostProfile) != *a.LocalhostProfile:
			x.invalid(local, *a.LocalhostProfile, "must not be padded with whitespace")
		case len(*a.LocalhostProfile) > longestAppArmor:
			x.invalid(local, *a.LocalhostProfile, validation.MaxLenError(longestAppArmor))
		}
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if a.LocalhostProfile != nil {
			x.invalid(local, *a.LocalhostProfile, "can only be set when AppArmor type is Localhost")
		}
	case "":
		x.required(kind, "type is required when appArmorProfile is set")
	default:
		oneOf(&x.findings, kind, a.Type, corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	}
}

func (x *examiner) windows(p fieldPath, w *corev1.WindowsSecurityContextOptions) {
	if w == nil {
		return
	}
	at := p.child("windowsOptions")
	if w.GMSACredentialSpecName != nil {
		x.invalidAll(at.child("gmsaCredentialSpecName"), *w.GMSACredentialSpecName, subdomain(*w.GMSACredentialSpecName))
	}
	if s := w.GMSACredentialSpec; s != nil {
		c := at.child("gmsaCredentialSpec")
		if len(*s) == 0 {
			x.invalid(c, *s, "gmsaCredentialSpec cannot be an empty string")
		} else if len(*s) > 64*1024 {
			x.invalid(c, *s, fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", 64))
		}
	}
	if u := w.RunAsUserName; u != nil {
		c := at.child("runAsUserName")
		if *u == "" {
			x.invalid(c, *u, "runAsUserName cannot be an empty string")
		} else {
			x.windowsUser(c, *u)
		}
	}
}

// podSecurity checks a pod's security context.
func (x *examiner) podSecurity(p fieldPath) {
	s := x.spec.SecurityContext
	if s == nil {
		return
	}
	at := p.child("securityContext")
	x.groupID(at, "fsGroup", s.FSGroup)
	x.userID(at, "runAsUser", s.RunAsUser)
	x.groupID(at, "runAsGroup", s.RunAsGroup)
	groups := at.child("supplementalGroups")
	for i, g := range s.SupplementalGroups {
		if messages := validation.IsValidGroupID(g); messages != nil {
			x.invalidAll(groups.item(i), g, messages)
		}
	}
	if shared := x.spec.ShareProcessNamespace; shared != nil && *shared && x.spec.HostPID {
		x.invalid(at.child("shareProcessNamespace"), *shared, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
	x.sysctls(at, s.Sysctls)
	if s.FSGroupChangePolicy != nil {
		oneOf(&x.findings, at.child("fsGroupChangePolicy"), *s.FSGroupChangePolicy, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
	}
	x.seccomp(at, s.SeccompProfile)
	x.windows(at, s.WindowsOptions)
	x.appArmor(at, s.AppArmorProfile)
	if s.SupplementalGroupsPolicy != nil {
		oneOf(&x.findings, at.child("supplementalGroupsPolicy"), *s.SupplementalGroupsPolicy, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	}
	if s.SELinuxChangePolicy != nil {
		oneOf(&x.findings, at.child("seLinuxChangePolicy"), *s.SELinuxChangePolicy, corev1.SELinuxChangePolicyRecursive)
	}
}

const (
	sysctlForm    = `^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`
	longestSysctl = 253
)

var sysctlName = regexp.MustCompile(sysctlForm)

func (x *examiner) sysctls(p fieldPath, list []corev1.Sysctl) {
	if len(list) == 0 {
		return
	}
	var names seen[string]
	sysctls := p.child("sysctls")
	for i, s := range list {
		item := sysctls.item(i)
		name := item.child("name")
		switch {
		case s.Name == "":
			x.required(name, "")
		case len(s.Name) > longestSysctl || !sysctlName.MatchString(s.Name):
			x.invalid(name, s.Name, fmt.Sprintf("must have at most %d characters and match regex %s", longestSysctl, sysctlForm))
		case !names.add(s.Name):
			x.duplicate(name, s.Name)
		}
		plain := strings.ReplaceAll(s.Name, "/", ".")
		if x.spec.HostNetwork && strings.HasPrefix(plain, "net.") {
			x.invalid(name, s.Name, "may not be specified when 'hostNetwork' is true")
		}
		if x.spec.HostIPC && (strings.HasPrefix(plain, "kernel.shm") || strings.HasPrefix(plain, "kernel.msg") ||
			strings.HasPrefix(plain, "fs.mqueue.") || plain == "kernel.sem") {
			x.invalid(name, s.Name, "may not be specified when 'hostIPC' is true")
		}
	}
}
