from yacs.config import CfgNode

_T = CfgNode()
_T.DATA = CfgNode()
_T.DATA.KIND = "folder"
_T.DATA.BATCH = 256
_T.DATA.FOLDER = ""
_T.DATA.THREADS = 12
_T.NET = CfgNode()
_T.NET.NAME = "swin_tiny_patch4_window7_224"
_T.NET.RESUME = ""
_T.FIT = CfgNode()
_T.FIT.EPOCHS = 120
_T.FIT.RATE = 5e-4
_T.MIXED = True


def tree_of(args):
    tree = _T.clone()
    tree.merge_from_file(args.cfg)
    if args.batch_size:
        tree.DATA.BATCH = args.batch_size
    if args.folder:
        tree.DATA.FOLDER = args.folder
    if args.resume:
        tree.NET.RESUME = args.resume
    if args.full_precision:
        tree.MIXED = False
    tree.freeze()
    return tree
