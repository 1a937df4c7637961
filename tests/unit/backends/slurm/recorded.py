"""Output of the commands of a real Slurm 22.05, as the backend asks for it."""

FACTS = """\
\x1enow
1794996400
\x1eroot
/home/me/.anygpu/slurm
\x1econfig
KillWait                = 3 sec
PreemptMode             = REQUEUE
PreemptType             = preempt/partition_prio
SLURM_VERSION           = 22.05.8
\x1enodes
preemptible\x1fn1\x1fmixed\x1fgpu:t4:2\x1fgpu:t4:1(IDX:0)\x1f1/7/0/8\x1f8000\x1f0\x1f
gpu*\x1fn1\x1fmixed\x1fgpu:t4:2\x1fgpu:t4:1(IDX:0)\x1f1/7/0/8\x1f8000\x1f0\x1f
preemptible\x1fn2\x1fidle\x1fgpu:t4:2\x1fgpu:t4:0(IDX:N/A)\x1f0/8/0/8\x1f8000\x1f0\x1f
gpu*\x1fn2\x1fidle\x1fgpu:t4:2\x1fgpu:t4:0(IDX:N/A)\x1f0/8/0/8\x1f8000\x1f0\x1f
gpu*\x1fn3\x1fdrained\x1fgpu:t4:2\x1fgpu:t4:0(IDX:N/A)\x1f0/0/8/8\x1f8000\x1f0\x1f
\x1epartitions
PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A DefaultTime=NONE \
DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO \
MaxCPUsPerNode=UNLIMITED Nodes=n[1-3] PriorityJobFactor=1 PriorityTier=10 RootOnly=NO ReqResv=NO OverSubscribe=NO \
OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=24 TotalNodes=3 SelectTypeParameters=NONE JobDefaults=(null) \
DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED TRES=cpu=24,mem=24000M,node=3,billing=24
PartitionName=preemptible AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=NO QoS=N/A \
DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=4 MaxTime=1-00:00:00 MinNodes=0 \
LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-2] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO \
OverSubscribe=NO OverTimeLimit=NONE PreemptMode=REQUEUE State=UP TotalCPUs=24 TotalNodes=3
\x1ereservations
ReservationName=root_1 StartTime=1795004608 EndTime=1795008208 Duration=01:00:00 Nodes=n[1-2] NodeCnt=2 CoreCnt=16 \
Features=(null) PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES TRES=cpu=24 Users=root Groups=(null) \
Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)
"""

QUEUE = """\
1\x1fCOMPLETED\x1f0\x1f1794996027\x1f1794996028\x1f1794996129\x1f0\x1fNone\x1fn1\x1fanygpu:abc\x1fanygpu-x-1\x1f
3\x1fFAILED\x1f0\x1f1794996389\x1f1794996389\x1f1794996389\x1f768\x1fNonZeroExitCode\x1fn1\x1f(null)\x1fwrap\x1f
6\x1fFAILED\x1f0\x1f1794996389\x1f1794996389\x1f1794996389\x1f4021\x1fJobLaunchFailure\x1fn1\x1f(null)\x1fwrap\x1f
4\x1fPENDING\x1f1\x1f1794996391\x1f1794996512\x1fNONE\x1f9\x1fBeginTime\x1f\x1f(null)\x1fwrap\x1f
7\x1fPENDING\x1f0\x1f1794996389\x1f1794999989\x1f1795000289\x1f0\x1fBeginTime\x1f\x1f(null)\x1fwrap\x1f
5\x1fRUNNING\x1f0\x1f1794996389\x1f1794996389\x1fNONE\x1f0\x1fNone\x1fn1\x1fx y|z\x1fwe ird|na'me\x1f
"""

ACCOUNTING = """\
1\x1fCOMPLETED\x1f0:0\x1f1794996027\x1f1794996028\x1f1794996129\x1fanygpu-x-1
2\x1fCANCELLED by 1001\x1f0:15\x1f1794996027\x1f1794996028\x1f1794996130\x1fanygpu-x-2
3\x1fFAILED\x1f3:0\x1f1794996389\x1f1794996389\x1f1794996389\x1fwrap
6\x1fFAILED\x1f0:53\x1f1794996389\x1f1794996389\x1f1794996389\x1fwrap
8\x1fRUNNING\x1f0:0\x1f1794996389\x1f1794996389\x1fUnknown\x1fanygpu-x-8
"""

STARTS = "sbatch: Job 2 to start at 1794999999 using 3 processors on nodes n[1-3] in partition gpu\n"
REFUSED = "allocation failure: Requested node configuration is not available\n"
NO_PARTITION = (
    "sbatch: error: invalid partition specified: nope\nallocation failure: Invalid partition name specified\n"
)
