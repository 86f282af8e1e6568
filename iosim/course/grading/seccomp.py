"""A filter of system calls: what no answer to an exercise needs is answered with EPERM. Standard library only; also loaded by path.

It is a list of denials, not of permissions: which calls an honest interpreter makes changes with every C library. Landlock knows the
files; this list has what Landlock does not know: processes, signals, sockets, other processes' memory, owners and modes of files.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable

from iosim.course.grading import libc

_NO_NEW_PRIVILEGES, _SET_FILTER, _FILTER_MODE = 38, 22, 2
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _SECOND_ARGUMENT = 0, 4, 24  # offsets in the kernel's struct seccomp_data
_ALLOW, _DENY, _UNKNOWN, _KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000  # EPERM is 1, ENOSYS is 0x26

# The first number that nobody here has read about; on x86_64 the x32 calls lie above it too.
_FIRST_UNREAD = 463
_FCNTL = {"x86_64": 72, "aarch64": 25}
_FCNTL_DENIED = (8, 10, 15, 1024, 1026, 1031)  # who gets a descriptor's signals, and which; leases, watches, larger pipes

# Name, number on x86_64, number on aarch64; from Linux's unistd headers. A dash: that machine has no such call.
DENIED = """
fork 57 -                   vfork 58 -                  clone 56 220                clone3 435 435
execve 59 221               execveat 322 281            setsid 112 157              setpgid 109 154
kill 62 129                 tkill 200 130               tgkill 234 131              rt_sigqueueinfo 129 138
rt_tgsigqueueinfo 297 240   pidfd_open 434 434          pidfd_getfd 438 438         pidfd_send_signal 424 424

socket 41 198               socketpair 53 199           connect 42 203              bind 49 200
listen 50 201               accept 43 202               accept4 288 242             sendto 44 206
sendmsg 46 211              sendmmsg 307 269

ptrace 101 117              process_vm_readv 310 270    process_vm_writev 311 271   process_madvise 440 440
process_mrelease 448 448    kcmp 312 272                migrate_pages 256 238       move_pages 279 239
perf_event_open 298 241     userfaultfd 323 282

setuid 105 146              setgid 106 144              setreuid 113 145            setregid 114 143
setresuid 117 147           setresgid 119 149           setgroups 116 159           setfsuid 122 151
setfsgid 123 152            capset 126 91               prctl 157 167               unshare 272 97
setns 308 268               personality 135 92

setrlimit 160 164           prlimit64 302 261           setpriority 141 140         ioprio_set 251 30
sched_setaffinity 203 122   sched_setscheduler 144 119  sched_setparam 142 118      sched_setattr 314 274
sync 162 81                 syncfs 306 267

memfd_create 319 279        memfd_secret 447 447        shmget 29 194               shmat 30 196
shmctl 31 195               msgget 68 186               msgsnd 69 189               msgrcv 70 188
msgctl 71 187               semget 64 190               semop 65 193                semtimedop 220 192
semctl 66 191               mq_open 240 180             mq_unlink 241 181           keyctl 250 219
add_key 248 217             request_key 249 218

truncate 76 45              chmod 90 -                  fchmod 91 52                fchmodat 268 53
fchmodat2 452 452           chown 92 -                  fchown 93 55                lchown 94 -
fchownat 260 54             utime 132 -                 utimes 235 -                futimesat 261 -
utimensat 280 88            setxattr 188 5              lsetxattr 189 6             fsetxattr 190 7
removexattr 197 14          lremovexattr 198 15         fremovexattr 199 16         symlink 88 -
symlinkat 266 36            link 86 -                   linkat 265 37               mknod 133 -
mknodat 259 33              name_to_handle_at 303 264   open_by_handle_at 304 265   inotify_init 253 -
inotify_init1 294 26        fanotify_init 300 262       quotactl 179 60             quotactl_fd 443 443

mount 165 40                umount2 166 39              pivot_root 155 41           chroot 161 51
open_tree 428 428           move_mount 429 429          fsopen 430 430              fsconfig 431 431
fsmount 432 432             fspick 433 433              mount_setattr 442 442       swapon 167 224
swapoff 168 225             bpf 321 280                 io_uring_setup 425 425      io_uring_enter 426 426
io_uring_register 427 427   reboot 169 142              kexec_load 246 104          kexec_file_load 320 294
init_module 175 105         finit_module 313 273        delete_module 176 106       acct 163 89
settimeofday 164 170        clock_settime 227 112       clock_adjtime 305 266       adjtimex 159 171
sethostname 170 161         setdomainname 171 162       syslog 103 116              iopl 172 -
ioperm 173 -                modify_ldt 154 -
"""

_Instruction = tuple[int, int, int, int]


def denied(machine: str) -> dict[str, int]:
    """The denied calls that a machine has, with their numbers."""
    words = DENIED.split()
    numbers = words[1::3] if machine == "x86_64" else words[2::3]
    return {name: int(number) for name, number in zip(words[::3], numbers, strict=True) if number != "-"}


def program(machine: str) -> bytes:
    """The filter for the kernel's classic BPF: eight bytes an instruction."""
    steps: list[_Instruction] = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), (_RETURN, 0, 0, _KILL)]
    steps += [(_LOAD, 0, 0, _NUMBER), *_refusals(denied(machine).values())]
    steps += [(_AT_LEAST, 0, 1, _FIRST_UNREAD), (_RETURN, 0, 0, _UNKNOWN)]
    steps += [(_EQUAL, 1, 0, _FCNTL[machine]), (_RETURN, 0, 0, _ALLOW)]
    steps += [(_LOAD, 0, 0, _SECOND_ARGUMENT), *_refusals(_FCNTL_DENIED), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def restrict() -> None:
    """Put this process and all its children under the filter, for good."""
    instructions = program(libc.machine())
    kept = ctypes.create_string_buffer(instructions, len(instructions))
    head = ctypes.create_string_buffer(struct.pack("<H6xQ", len(instructions) // 8, ctypes.addressof(kept)))
    libc.prctl(_NO_NEW_PRIVILEGES, 1)
    libc.prctl(_SET_FILTER, _FILTER_MODE, ctypes.addressof(head))


def _refusals(numbers: Iterable[int]) -> list[_Instruction]:
    return [step for number in numbers for step in ((_EQUAL, 0, 1, number), (_RETURN, 0, 0, _DENY))]
