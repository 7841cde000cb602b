package podspec

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Windows' rules for user names, and for domains: a NetBIOS name or a DNS name.
const (
	longestWindowsUser   = 104
	longestNetBIOSDomain = 15
	notInWindowsUser     = `"/\:;|=,+*?<>@[]`
	notInNetBIOSDomain   = `\/:*?"<>|`
	longestDomain        = 255
)

var (
	domainLabels = regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)
	controls     = func(r rune) bool { return r < ' ' || r == 0x7f }
)

// windowsUser validates a Windows user: a name, optionally after a domain and a backslash.
func (x *examiner) windowsUser(p fieldPath, whole string) {
	if strings.IndexFunc(whole, controls) >= 0 {
		x.invalid(p, whole, "runAsUserName cannot contain control characters")
	}
	domain, user, qualified := strings.Cut(whole, `\`)
	switch {
	case strings.Contains(user, `\`):
		x.invalid(p, whole, "runAsUserName cannot contain more than one backslash")
		return
	case !qualified:
		user = domain
	case !isWindowsDomain(domain):
		x.invalid(p, whole, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	switch {
	case user == "":
		x.invalid(p, whole, "runAsUserName's User cannot be empty")
	case len(user) > longestWindowsUser:
		x.invalid(p, whole, fmt.Sprintf("runAsUserName's User length must not be longer than %d characters", longestWindowsUser))
	}
	if user != "" && strings.Trim(user, " .") == "" {
		x.invalid(p, whole, "runAsUserName's User cannot contain only periods or spaces")
	}
	if strings.ContainsAny(user, notInWindowsUser) {
		x.invalid(p, whole, "runAsUserName's User cannot contain the following characters: "+notInWindowsUser)
	}
}

func isWindowsDomain(s string) bool {
	netBIOS := s != "" && s[0] != '.' && len(s) <= longestNetBIOSDomain && !strings.ContainsAny(s, notInNetBIOSDomain)
	return netBIOS || len(s) <= longestDomain && domainLabels.MatchString(s)
}

// hostProcesses validates HostProcess containers of Windows: either all of a pod's containers are HostProcess
// containers, or none is.
func (x *examiner) hostProcesses(p fieldPath) {
	var whole *bool
	if s := x.spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		whole = s.WindowsOptions.HostProcess
	}
	on, off, described := 0, 0, whole != nil
	one := func(list string, i int, s *corev1.SecurityContext) {
		own := whole
		if s != nil && s.WindowsOptions != nil && s.WindowsOptions.HostProcess != nil {
			own, described = s.WindowsOptions.HostProcess, true
			if whole != nil && *own != *whole {
				item := p.element(list, i)
				security := item.child("securityContext")
				options := security.child("windowsOptions")
				x.invalid(options.child("hostProcess"), *own, fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *whole))
			}
		}
		if own != nil && *own {
			on++
		} else {
			off++
		}
	}
	x.everyContainer(one)
	if !described || on == 0 {
		return
	}
	if off > 0 {
		x.invalid(p, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers")
	}
	if !x.spec.HostNetwork {
		x.invalid(p.child("hostNetwork"), false, "hostNetwork must be true if pod contains any hostProcess containers")
	}
	if !x.opt.AllowPrivileged {
		x.forbidden(p, "hostProcess containers are disallowed by cluster policy")
	}
}
