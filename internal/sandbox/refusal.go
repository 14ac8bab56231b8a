package sandbox

import (
	"errors"
	"strconv"
	"syscall"
)

// The stages that can refuse, as a person reads them.
const (
	stageClone    = "making namespaces"
	stageStart    = "starting the stage"
	stageRoot     = "building a root"
	stageProc     = "mounting /proc"
	stageOverlay  = "laying changes over the workspace"
	stageHide     = "hiding credentials"
	stagePrivs    = "giving up privileges"
	stageLimits   = "setting limits"
	stageDir      = "entering the workspace"
	stageLandlock = "restricting by Landlock"
	stageSeccomp  = "filtering system calls"
	stageFork     = "starting the program's process"
	stageExec     = "running the program"
	stageOrder    = "reading the order"
)

// remedies are what helps, by stage; "" has no remedy but a report.
var remedies = map[string]string{
	stageClone:    "Allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; in a container its security profile), or use the tier landlock.",
	stageRoot:     "Allow mounts in user namespaces (an AppArmor profile or a container's security profile denies them), or use the tier landlock.",
	stageProc:     "Start the container with an unmasked /proc, or use the tier landlock.",
	stageLandlock: "Boot a kernel of 6.2 or newer with Landlock on (boot option lsm=landlock,…).",
	stageSeccomp:  "Boot a kernel with CONFIG_SECCOMP_FILTER.",
	stageExec:     "Look whether the program is an executable of this machine, and readable for this user.",
	stageDir:      "Look whether this user may enter the workspace.",
}

// refusal is a stage that failed.
type refusal struct {
	stage string
	err   error
}

func (r *refusal) Error() string { return r.stage + ": " + r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// public is the error for the caller. It gives the name of the error only: the
// text may hold paths.
func (r *refusal) public() error {
	why := "for an unknown reason"
	if errno, ok := errors.AsType[syscall.Errno](r.err); ok {
		why = errno.Error()
	} else if r.stage == stageLandlock || r.stage == stageStart {
		why = r.err.Error()
	}
	remedy := remedies[r.stage]
	if remedy == "" {
		remedy = "Run signalbox sandbox certify, and report what it says."
	}
	e := refused(r.stage, why, remedy)
	e.Err = r
	return e
}

// refusal makes the error of a reply that tells a failure.
func (r reply) refusal() error {
	if n, err := strconv.Atoi(r.Errno); err == nil && n != 0 {
		return &refusal{r.Failed, syscall.Errno(n)}
	}
	return &refusal{r.Failed, errors.New(r.Why)}
}
